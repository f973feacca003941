-- The runs that graded each of some sessions, the latest first.
SELECT session_id, run_id, runs.name, graded_at, verdict
FROM verdicts JOIN runs USING (run_id)
WHERE session_id IN (SELECT unnest($sessions::VARCHAR[]))
QUALIFY row_number() OVER (PARTITION BY session_id ORDER BY graded_at DESC, run_id) <= $limit
ORDER BY graded_at DESC, run_id
