-- Version 0.1.0 made `runs` and `scores` with the first grade, without the judge.
ALTER TABLE runs ADD COLUMN IF NOT EXISTS judge VARCHAR;              -- provider and model
ALTER TABLE runs ADD COLUMN IF NOT EXISTS judge_calls BIGINT;         -- also of calls that failed
ALTER TABLE runs ADD COLUMN IF NOT EXISTS judge_cache_hits BIGINT;    -- answers that needed no call
ALTER TABLE runs ADD COLUMN IF NOT EXISTS judge_failures BIGINT;      -- outcomes that are missing because it failed
ALTER TABLE runs ADD COLUMN IF NOT EXISTS judge_input_tokens BIGINT;  -- NULL: unknown
ALTER TABLE runs ADD COLUMN IF NOT EXISTS judge_output_tokens BIGINT;
ALTER TABLE runs ADD COLUMN IF NOT EXISTS judge_cost_usd DOUBLE;      -- NULL: unknown
