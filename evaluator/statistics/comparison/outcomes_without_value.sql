-- How many outcomes of each metric have no value although it applies, by question, or by session if it answers none.
SELECT metric, coalesce(chosen.question_id, scores.session_id), count(*)
FROM scores JOIN ({chosen}) AS chosen USING (run_id, session_id)
WHERE outcome NOT IN ('score', 'not_applicable') OR (outcome = 'score' AND NOT isfinite(value))
GROUP BY ALL
