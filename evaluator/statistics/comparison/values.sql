-- The values of each metric, the metrics in the order in which they were stored, and the places of their sessions in
-- graded_sessions.sql, in any order: two lists for each metric take a fifth of the time of ordered ones.
WITH chosen AS (SELECT *, row_number() OVER (ORDER BY question_id, session_id) - 1 AS place FROM ({chosen}))
SELECT metric, list(place), list(value)
FROM scores JOIN chosen USING (run_id, session_id)
WHERE outcome = 'score' AND isfinite(value)
GROUP BY metric
ORDER BY min(scores.rowid)
