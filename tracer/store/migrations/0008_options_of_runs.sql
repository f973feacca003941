-- By what a run was graded beside its metrics and questions, so that it can be graded again. NULL: not recorded.
ALTER TABLE runs ADD COLUMN IF NOT EXISTS metrics_files VARCHAR[];        -- of --metrics-file
ALTER TABLE runs ADD COLUMN IF NOT EXISTS without_references VARCHAR[];   -- that were not gates, of --no-reference
ALTER TABLE runs ADD COLUMN IF NOT EXISTS question_condition VARCHAR;     -- of --where, with a dataset; NULL also: none
ALTER TABLE runs ADD COLUMN IF NOT EXISTS require_match BOOLEAN;          -- of --require-match
ALTER TABLE runs ADD COLUMN IF NOT EXISTS reply_threshold DOUBLE;         -- of --judge-threshold; NULL also: the default
ALTER TABLE runs ADD COLUMN IF NOT EXISTS judge_votes BIGINT;             -- of --judge-votes
