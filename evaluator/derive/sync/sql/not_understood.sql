-- Spans that look like an agent's and that no dialect understood, also of traces that are not a session.
CREATE TABLE derived.not_understood (
    session_id  VARCHAR NOT NULL,
    trace_id    VARCHAR NOT NULL,
    scope       VARCHAR NOT NULL,  -- of the instrumentation, '' without one
    spans       BIGINT NOT NULL,
    tools       BIGINT NOT NULL,   -- of these spans, those that look like calls of tools
    span_id     VARCHAR NOT NULL   -- the first of these spans, of those that look like calls of tools if any do
)
