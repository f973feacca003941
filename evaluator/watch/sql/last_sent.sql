-- What was sent of some sessions to a destination, the oldest first.
SELECT session_id, question_id, metric, content, run_id, time_ns, trace_id, span_id, sent_ns IS NOT NULL
FROM sent_scores
WHERE endpoint = $endpoint AND session_id IN (FROM wanted)
ORDER BY rowid
