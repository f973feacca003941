-- Scores that no run of `grade` made have no run: they are from people, incoming traces and programs. Their note or
-- explanation is the `reason`, the spans that they are about are the `evidence`.
ALTER TABLE scores ALTER COLUMN run_id DROP NOT NULL;
ALTER TABLE scores ADD COLUMN IF NOT EXISTS source VARCHAR DEFAULT 'run';  -- run, person, trace or program
ALTER TABLE scores ADD COLUMN IF NOT EXISTS author VARCHAR;                -- a user, or what evaluated the trace
ALTER TABLE scores ADD COLUMN IF NOT EXISTS turn BIGINT;                   -- NULL: the whole session
ALTER TABLE scores ADD COLUMN IF NOT EXISTS label VARCHAR;                 -- the value in words, such as pass
ALTER TABLE scores ADD COLUMN IF NOT EXISTS scored_at TIMESTAMP;           -- UTC; NULL in a run: see runs.graded_at
