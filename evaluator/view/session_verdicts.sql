-- The runs that graded a session, the latest first.
SELECT run_id, runs.name, graded_at, verdict
FROM verdicts JOIN runs USING (run_id)
WHERE session_id = $session_id
ORDER BY graded_at DESC, run_id
LIMIT $limit
