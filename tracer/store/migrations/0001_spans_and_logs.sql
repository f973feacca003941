-- What came in, as it came: never rewritten. Everything else in the database can be derived from here.
CREATE SEQUENCE arrival;

CREATE TABLE spans (
    seq             BIGINT NOT NULL DEFAULT nextval('arrival'),  -- order of arrival: how far derivation has come
    trace_id        VARCHAR NOT NULL,                            -- lower-case hex, as every tool prints it
    span_id         VARCHAR NOT NULL,
    parent_span_id  VARCHAR,
    name            VARCHAR NOT NULL,
    kind            VARCHAR NOT NULL,
    start_ns        BIGINT NOT NULL,                             -- BIGINT and not TIMESTAMP_NS: to the digit in every client
    end_ns          BIGINT NOT NULL,
    status          VARCHAR NOT NULL,
    status_message  VARCHAR,
    attributes      JSON USING COMPRESSION zstd,                 -- a third of the size of the automatic codec, loads twice as fast
    events          JSON USING COMPRESSION zstd,
    links           JSON,
    resource        JSON,                                        -- the same for thousands of rows: the dictionary codec's case
    scope_name      VARCHAR,
    scope_version   VARCHAR,
    trace_state     VARCHAR
    -- No PRIMARY KEY: it costs 9% to 40% of the insert rate; insert_spans.sql leaves out what is here already.
);

CREATE TABLE logs (
    seq             BIGINT NOT NULL DEFAULT nextval('arrival'),
    trace_id        VARCHAR,
    span_id         VARCHAR,
    time_ns         BIGINT NOT NULL,
    event_name      VARCHAR,
    severity        VARCHAR,
    body            JSON USING COMPRESSION zstd,
    attributes      JSON USING COMPRESSION zstd,
    resource        JSON,
    scope_name      VARCHAR,
    scope_version   VARCHAR
);
