-- The spans of the last import by scope if none is in a session; without an import, of the whole database.
WITH here AS (
    SELECT trace_id
    FROM derived.traces
    WHERE trace_id IN (FROM last_import) OR NOT EXISTS (FROM last_import)
), scopes AS (
    SELECT coalesce(scope_name, '') AS scope, count(*) AS spans, arg_min(seq, seq, $most) AS first_spans,
        min_by({'trace_id': trace_id, 'span_id': span_id}, seq) AS example
    FROM spans
    SEMI JOIN here USING (trace_id)
    GROUP BY ALL
), examples AS (
    SELECT scope, list(attributes) AS attributes
    FROM spans
    JOIN (SELECT scope, unnest(first_spans) AS seq FROM scopes) USING (seq)
    GROUP BY ALL
)
SELECT NULL, scope, spans, coalesce(attributes, []), example
FROM scopes
LEFT JOIN examples USING (scope)
ORDER BY spans DESC, scope
