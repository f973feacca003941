-- What was last sent of some sessions to a receiver, by session, question and metric.
SELECT session_id, question_id, metric, content, run_id, time_ns, sent_ns IS NOT NULL
FROM sent_scores
WHERE endpoint = $endpoint AND session_id IN (FROM wanted)
QUALIFY row_number() OVER (PARTITION BY session_id, question_id, metric ORDER BY rowid DESC) = 1
