-- The verdict that each session shows.
SELECT session_id, verdict, reason
FROM {grades}
SEMI JOIN derived.sessions USING (session_id)
WHERE shown
ORDER BY session_id
