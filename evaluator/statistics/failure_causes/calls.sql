-- What sessions called, and what they called again.
SELECT session_id, 'tool' AS kind, 'calls ' || tool_name AS fact, span_id, position
FROM derived.tool_interactions SEMI JOIN chosen USING (session_id)
UNION ALL
SELECT session_id, 'tool', 'calls ' || tool_name || ' again', span_id, position
FROM (
    SELECT session_id, tool_name, span_id, position,
        row_number() OVER (PARTITION BY session_id, tool_name ORDER BY position) AS number
    FROM derived.tool_interactions SEMI JOIN chosen USING (session_id)
)
WHERE number = 2
