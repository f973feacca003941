-- The attributes of spans of the first sessions of the last import that have no id.
WITH first AS (
    SELECT trace_id, first_seq, last_seq
    FROM derived.traces
    SEMI JOIN last_import USING (trace_id)
    SEMI JOIN (FROM derived.sessions WHERE session_id_source = 'trace') USING (session_id)
    ORDER BY first_seq
    LIMIT $most
)
SELECT attributes
FROM spans
SEMI JOIN first USING (trace_id)
WHERE seq BETWEEN (SELECT min(first_seq) FROM first) AND (SELECT max(last_seq) FROM first)
ORDER BY seq
