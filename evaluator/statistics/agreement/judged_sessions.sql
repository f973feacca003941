-- The outcome of a metric in the latest run that measured it, of each session.
SELECT session_id, outcome, value, passed, reason, higher_is_better
FROM {latest_scores} LEFT JOIN run_metrics USING (run_id, metric)
SEMI JOIN derived.sessions USING (session_id)
WHERE metric = $metric
ORDER BY session_id
