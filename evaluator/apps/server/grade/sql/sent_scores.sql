-- The scores that were sent to a receiver: the last row of a session, question and metric is what it has, or may have.
-- It is written before the score is sent, which has its run and time also when sent again.
CREATE TABLE IF NOT EXISTS sent_scores (
    endpoint     VARCHAR NOT NULL,
    session_id   VARCHAR NOT NULL,
    question_id  VARCHAR NOT NULL,  -- empty: none
    metric       VARCHAR NOT NULL,
    content      VARCHAR NOT NULL,  -- digest of the event without its run and time
    run_id       VARCHAR NOT NULL,  -- the first run that gave it
    time_ns      BIGINT NOT NULL,
    trace_id     VARCHAR NOT NULL,  -- where it is
    span_id      VARCHAR,           -- NULL: on the trace
    sent_ns      BIGINT             -- NULL: not known to be accepted
);
