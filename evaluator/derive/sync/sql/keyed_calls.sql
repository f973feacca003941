-- Model calls with the id of their response: another instrumentation may record them in a trace of its own.
CREATE TABLE derived.keyed_calls (
    session_id     VARCHAR NOT NULL,
    trace_id       VARCHAR NOT NULL,
    call_key       VARCHAR NOT NULL,  -- the response's id
    scope          VARCHAR,           -- of the instrumentation
    start_ns       BIGINT NOT NULL,
    end_ns         BIGINT NOT NULL,
    provider       VARCHAR            -- whose API gave the id, if that is known
)
