-- The tool calls of sessions with their arguments, in order.
WITH chosen AS ({chosen})
SELECT session_id, list(tool_name || coalesce(' ' || input_arguments, '') ORDER BY position)
FROM derived.tool_interactions SEMI JOIN chosen USING (session_id)
GROUP BY session_id
