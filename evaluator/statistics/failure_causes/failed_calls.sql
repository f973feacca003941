-- The failed calls of sessions with what they say of their errors.
SELECT session_id, span_id, tool_name, error
FROM derived.tool_interactions
WHERE session_id IN (SELECT unnest($session_ids)) AND span_id IS NOT NULL AND (ok = false OR error IS NOT NULL)
