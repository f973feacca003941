-- What was sent of some sessions to a receiver, the oldest first.
SELECT session_id, question_id, metric, content, run_id, time_ns, sent_ns IS NOT NULL
FROM sent_scores
WHERE endpoint = $endpoint AND session_id IN (FROM wanted)
ORDER BY rowid
