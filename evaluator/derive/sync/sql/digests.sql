-- Digests of the messages after each model call of such traces: the history of whatever continues there.
CREATE TABLE derived.digests (
    session_id  VARCHAR NOT NULL,
    trace_id    VARCHAR NOT NULL,
    start_ns    BIGINT NOT NULL,
    digest      VARCHAR NOT NULL
)
