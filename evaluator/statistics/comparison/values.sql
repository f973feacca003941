-- The values of each metric in the order in which they were stored, and the places of their sessions in graded_sessions.sql.
-- Two lists for each metric: 300,000 rows with the names of questions and sessions take a third longer, and then a lookup each.
WITH chosen AS (SELECT *, row_number() OVER (ORDER BY question_id, session_id) - 1 AS place FROM ({chosen}))
SELECT metric, list(place ORDER BY scores.rowid), list(value ORDER BY scores.rowid)
FROM scores JOIN chosen USING (run_id, session_id)
WHERE outcome = 'score' AND isfinite(value)
GROUP BY metric
ORDER BY min(scores.rowid)
