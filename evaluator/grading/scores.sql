-- What grading came to: one row a run, session and metric. Not derived from spans alone: kept when they are
-- derived again.
CREATE TABLE IF NOT EXISTS runs (
    run_id     VARCHAR NOT NULL,
    graded_at  TIMESTAMP NOT NULL DEFAULT current_timestamp::TIMESTAMP,
    dataset    VARCHAR NOT NULL,
    metrics    VARCHAR[] NOT NULL     -- as they were asked for
);

CREATE TABLE IF NOT EXISTS scores (
    run_id       VARCHAR NOT NULL,
    session_id   VARCHAR,             -- NULL: no session answered the question
    question_id  VARCHAR,
    metric       VARCHAR NOT NULL,
    value        DOUBLE,
    passed       BOOLEAN,             -- NULL: no threshold judged the value
    outcome      VARCHAR NOT NULL,    -- score, inconclusive, not_applicable or failure
    reason       VARCHAR,
    evidence     VARCHAR              -- JSON list of span ids
);
