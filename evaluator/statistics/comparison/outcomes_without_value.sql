-- Of each metric, the places in graded_sessions.sql of the sessions that it has no value of although it applies.
WITH chosen AS (SELECT *, row_number() OVER (ORDER BY question_id, session_id) - 1 AS place FROM ({chosen}))
SELECT metric, list(place)
FROM scores JOIN chosen USING (run_id, session_id)
WHERE outcome NOT IN ('score', 'not_applicable') OR (outcome = 'score' AND NOT isfinite(value))
GROUP BY metric
