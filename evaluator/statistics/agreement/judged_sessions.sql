-- The outcome of a metric in the latest run that measured it, of each session.
SELECT scores.session_id, scores.outcome, scores.value, scores.passed, scores.reason, run_metrics.higher_is_better
FROM scores
JOIN runs USING (run_id)
LEFT JOIN run_metrics USING (run_id, metric)
SEMI JOIN derived.sessions USING (session_id)
WHERE scores.metric = $metric
    -- Not the mean of the scores that people gave, which a run measures where no metric has the name (scores/as_metric.py).
    AND NOT coalesce(run_metrics.unit = 'score' AND isinf(run_metrics.lowest) AND run_metrics.version IS NULL, false)
QUALIFY row_number() OVER (PARTITION BY scores.session_id ORDER BY runs.graded_at DESC, run_id, scores.rowid DESC) = 1
ORDER BY scores.session_id
