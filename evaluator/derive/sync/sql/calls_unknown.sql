-- Why calls of the sessions of the last import are unknown, each reason with its number of turns.
WITH imported AS (
    SELECT DISTINCT session_id
    FROM derived.traces
    SEMI JOIN last_import USING (trace_id)
)
SELECT calls_unknown, count(*)
FROM derived.turns
SEMI JOIN imported USING (session_id)
WHERE calls_unknown IS NOT NULL AND NOT driven
GROUP BY calls_unknown
ORDER BY calls_unknown
