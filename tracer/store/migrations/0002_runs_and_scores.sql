-- What grading came to: one row a run, and one a run, session and metric. Not derived from spans alone: kept when
-- they are derived again. Version 0.1.0 made these tables with the first grade.
CREATE TABLE IF NOT EXISTS runs (
    run_id     VARCHAR NOT NULL,
    graded_at  TIMESTAMP NOT NULL DEFAULT current_timestamp::TIMESTAMP,
    dataset    VARCHAR NOT NULL,
    metrics    VARCHAR[] NOT NULL     -- as they were asked for
);
ALTER TABLE runs ADD COLUMN IF NOT EXISTS judge VARCHAR;              -- provider and model
ALTER TABLE runs ADD COLUMN IF NOT EXISTS judge_calls BIGINT;         -- also of calls that failed
ALTER TABLE runs ADD COLUMN IF NOT EXISTS judge_cache_hits BIGINT;    -- answers that needed no call
ALTER TABLE runs ADD COLUMN IF NOT EXISTS judge_failures BIGINT;      -- outcomes that are missing because it failed
ALTER TABLE runs ADD COLUMN IF NOT EXISTS judge_input_tokens BIGINT;  -- NULL: unknown
ALTER TABLE runs ADD COLUMN IF NOT EXISTS judge_output_tokens BIGINT;
ALTER TABLE runs ADD COLUMN IF NOT EXISTS judge_cost_usd DOUBLE;      -- NULL: unknown

CREATE TABLE IF NOT EXISTS scores (
    run_id       VARCHAR NOT NULL,
    session_id   VARCHAR,             -- NULL: no session answered the question
    question_id  VARCHAR,
    metric       VARCHAR NOT NULL,
    value        DOUBLE,
    passed       BOOLEAN,             -- NULL: no threshold judged the value
    outcome      VARCHAR NOT NULL,    -- score, inconclusive, not_applicable, failure or judge_failure
    reason       VARCHAR,
    evidence     VARCHAR              -- JSON list of span ids
);

-- The traces of the files that were imported last, for `grade --last-import`.
CREATE TABLE IF NOT EXISTS last_import (trace_id VARCHAR NOT NULL);
