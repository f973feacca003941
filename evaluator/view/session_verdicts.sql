-- The runs that graded each of some sessions, the latest first.
SELECT session_id, run_id, runs.name, coalesce(given_at, graded_at) AS given, verdict
FROM verdicts JOIN runs USING (run_id)
WHERE session_id IN (SELECT unnest($sessions::VARCHAR[]))
ORDER BY given DESC, run_id
