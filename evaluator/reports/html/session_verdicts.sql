-- The runs that graded each of some sessions, the latest first.
SELECT session_id, run_id, run, graded_at, verdict
FROM {run_cells}
WHERE session_id IN (SELECT unnest($sessions::VARCHAR[]))
ORDER BY graded_at DESC, run_id
