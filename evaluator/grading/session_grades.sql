-- The grades of a session, that which it shows first.
SELECT
    grades.run_id, runs.name, grades.graded_at, dataset, question_id, verdict, reason,
    (run_id, session_id) IN {arrived_since} AS arrived_since
FROM {grades} AS grades JOIN runs USING (run_id)
WHERE session_id = $session_id
ORDER BY shown DESC
