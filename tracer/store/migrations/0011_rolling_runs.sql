-- A run of `watch` rolls over a day; those of earlier versions, one for each batch, are marked in the same way.
ALTER TABLE runs ADD COLUMN IF NOT EXISTS day DATE;                  -- of a rolling run of `watch`, UTC; NULL: any other run
ALTER TABLE verdicts ADD COLUMN IF NOT EXISTS given_at TIMESTAMP;   -- UTC; NULL: see runs.graded_at
UPDATE runs SET day = graded_at::DATE WHERE tags->>'$.watch' IS NOT NULL;
