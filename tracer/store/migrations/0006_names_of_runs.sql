-- What tells runs apart when they are compared. NULL in runs of earlier versions.
ALTER TABLE runs ADD COLUMN IF NOT EXISTS name VARCHAR;              -- of `grade --run`; NULL: none
ALTER TABLE runs ADD COLUMN IF NOT EXISTS tags JSON;                 -- of `grade --tag`, an object of texts
ALTER TABLE runs ADD COLUMN IF NOT EXISTS git_commit VARCHAR;        -- NULL: not graded in a git repository
ALTER TABLE runs ADD COLUMN IF NOT EXISTS git_dirty BOOLEAN;         -- whether tracked files differed from the commit
ALTER TABLE runs ADD COLUMN IF NOT EXISTS git_branch VARCHAR;        -- NULL: no branch was checked out
ALTER TABLE runs ADD COLUMN IF NOT EXISTS dataset_digest VARCHAR;    -- SHA-256 of the questions' canonical JSON
ALTER TABLE runs ADD COLUMN IF NOT EXISTS prices_version VARCHAR;    -- of the library genai-prices
