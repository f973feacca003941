-- The sessions of a stream, the worst first.
SELECT session_id FROM ({sessions}) WHERE stream = $one ORDER BY bad DESC, start_ns DESC, session_id LIMIT $limit
