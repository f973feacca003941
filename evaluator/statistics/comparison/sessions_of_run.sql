-- The sessions of a run with their grades.
SELECT session_id, question_id, verdict, reason, run_id, graded_at
FROM {run_cells}
WHERE run_id = $run_id AND session_id IS NOT NULL
