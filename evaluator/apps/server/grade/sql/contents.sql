-- The content with which each of some sessions was graded last.
SELECT session_id, arg_max(content, (seq, graded_ns))
FROM watched SEMI JOIN wanted USING (session_id)
WHERE gates = $gates
GROUP BY session_id
