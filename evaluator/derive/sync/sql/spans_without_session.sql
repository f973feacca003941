-- The spans of the last import by scope if none is in a session; without an import, of the whole database.
WITH here AS (
    SELECT trace_id, session_id
    FROM derived.traces
    WHERE trace_id IN (FROM last_import) OR NOT EXISTS (FROM last_import)
)
SELECT NULL, coalesce(scope_name, ''), count(*), arg_min(attributes, seq, $most)
FROM spans
SEMI JOIN here USING (trace_id)
WHERE NOT EXISTS (FROM here SEMI JOIN derived.sessions USING (session_id))
GROUP BY ALL
ORDER BY 3 DESC, 2
