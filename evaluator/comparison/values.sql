-- The values of each metric of a run by question, or by session if it answers none.
SELECT metric, coalesce(question_id, session_id), list(value ORDER BY session_id)
FROM scores
WHERE run_id = $run_id AND session_id IS NOT NULL AND outcome = 'score' AND isfinite(value)
GROUP BY ALL
