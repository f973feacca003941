-- The values of each metric by question, or by session if it answers none, in the order in which they were stored.
SELECT metric, coalesce(chosen.question_id, session_id), list(value ORDER BY session_id)
FROM scores JOIN ({chosen}) AS chosen USING (run_id, session_id)
WHERE outcome = 'score' AND isfinite(value)
GROUP BY ALL
ORDER BY min(scores.rowid)
