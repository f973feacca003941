-- Whether a session has changed since a verdict on it.
ALTER TABLE verdicts ADD COLUMN IF NOT EXISTS records BIGINT;  -- how many spans and logs it had then; NULL: not recorded
