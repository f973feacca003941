SELECT question_id, reason
FROM verdicts
WHERE run_id = $run AND session_id IS NULL
ORDER BY question_id
LIMIT $limit
