-- The spans that no dialect understood, by session and scope, with the attributes of the first of them and one's ids.
WITH counted AS (
    SELECT
        session_id,
        scope,
        sum(spans)::BIGINT AS spans,
        max_by({'trace_id': trace_id, 'span_id': span_id}, (tools > 0, trace_id)) AS example
    FROM derived.not_understood
    WHERE $sessions IS NULL OR session_id IN (SELECT unnest($sessions::VARCHAR[]))
    GROUP BY ALL
), traces AS (
    SELECT session_id, scope, trace_id
    FROM derived.not_understood
    WHERE $sessions IS NULL OR session_id IN (SELECT unnest($sessions::VARCHAR[]))
), examples AS (
    SELECT traces.session_id, traces.scope, arg_min(spans.attributes, spans.seq, $most) AS attributes
    FROM spans
    JOIN traces ON spans.trace_id = traces.trace_id AND coalesce(spans.scope_name, '') = traces.scope
    GROUP BY ALL
)
SELECT session_id, scope, spans, coalesce(attributes, []), example
FROM counted
LEFT JOIN examples USING (session_id, scope)
ORDER BY session_id, scope
