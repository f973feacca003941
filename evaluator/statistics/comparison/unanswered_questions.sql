-- The golden questions that no session of the run answers.
SELECT question_id
FROM {run_cells}
WHERE run_id = $run_id AND session_id IS NULL AND question_id IS NOT NULL
