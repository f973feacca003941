-- Which rules judged a run.
ALTER TABLE runs ADD COLUMN IF NOT EXISTS rules VARCHAR;  -- NULL: those of an earlier version
