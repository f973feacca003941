SELECT question_id, reason
FROM {run_cells}
WHERE run_id = $run AND session_id IS NULL
ORDER BY question_id
LIMIT $limit
