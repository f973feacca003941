-- The traces of the derived sessions.
CREATE TABLE derived.traces (
    trace_id    VARCHAR NOT NULL,
    session_id  VARCHAR NOT NULL,
    first_seq   BIGINT NOT NULL,  -- where its spans and logs are in the order of arrival: nothing outside is read
    last_seq    BIGINT NOT NULL,
    records     BIGINT NOT NULL,  -- how many spans and logs it has
    -- Its position in a conversation that records no id, as digests of messages; NULL if it has an id.
    start_ns    BIGINT,
    history     VARCHAR,          -- what its first model call continues, NULL where a conversation may begin
    request     VARCHAR,          -- that call's whole request
    conversation_id VARCHAR,      -- the id that it records, NULL if it has none
    leader      VARCHAR           -- the trace whose model calls it repeats, by another instrumentation
)
