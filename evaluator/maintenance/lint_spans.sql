-- What is odd about the spans of sessions, of all or of some, counted by session over the traces that begin in a part of
-- the order of arrival; a parent is looked for in its own trace. DuckDB skips row groups outside of the bounds.
SELECT
    traces.session_id,
    count(*) FILTER (spans.parent_span_id IS NOT NULL AND parents.span_id IS NULL) AS orphans,
    count(DISTINCT spans.trace_id)
        - count(DISTINCT spans.trace_id) FILTER (spans.parent_span_id IS NULL) AS without_root,
    count(*) FILTER (spans.end_ns < spans.start_ns) AS unfinished,
    count(*) FILTER (
        spans.end_ns >= spans.start_ns AND parents.end_ns >= parents.start_ns AND (
            -- HUGEINT: a recorded time may be any 64-bit integer.
            spans.start_ns < parents.start_ns::HUGEINT - $tolerance_ns
            -- A background task may outlive its parent; the answer to a request is there before the request ends.
            OR (parents.kind = 'CLIENT' AND spans.kind = 'SERVER' AND spans.end_ns > parents.end_ns::HUGEINT + $tolerance_ns)
        )
    ) AS skewed,
    -- https://opentelemetry.io/docs/specs/otel/trace/tracestate-handling/: a threshold above 0 drops traces.
    count(DISTINCT spans.trace_id) FILTER (
        regexp_matches(spans.trace_state, '(^|,)\s*(ot=([^,]*;)?th:0*[1-9a-f]|spangrade=partial)')
    ) AS sampled,
    -- Nearly no span has it: parsing only those whose text contains it takes 0.6 of the time.
    count(*) FILTER (
        CASE WHEN contains(spans.attributes, '"spangrade.not_recorded"')
        THEN (spans.attributes->>'$."spangrade.not_recorded"') IS NOT NULL END
    ) AS with_losses
FROM (FROM spans WHERE seq BETWEEN $first_trace AND $last) AS spans
JOIN derived.traces USING (trace_id)
LEFT JOIN (FROM spans WHERE seq BETWEEN $first_trace AND $last) AS parents
    ON parents.trace_id = spans.trace_id AND parents.span_id = spans.parent_span_id
WHERE traces.first_seq BETWEEN $first_trace AND $last_trace
    AND ($sessions IS NULL OR traces.session_id IN (SELECT unnest($sessions::VARCHAR[])))
GROUP BY traces.session_id
HAVING orphans + without_root + unfinished + skewed + sampled + with_losses > 0
