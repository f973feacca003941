-- The values of each metric with the question, or the session if it answers none, in the order in which they were stored.
-- They are grouped outside: with 300,000 values that takes 1.1 s of CPU here, and this 0.2 s.
SELECT metric, coalesce(chosen.question_id, session_id), session_id, value
FROM scores JOIN ({chosen}) AS chosen USING (run_id, session_id)
WHERE outcome = 'score' AND isfinite(value)
ORDER BY scores.rowid
