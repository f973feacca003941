-- The gates of each labelled session in the latest run by these judges that measured what the labels are about.
WITH labels AS (
    SELECT DISTINCT session_id, metric FROM scores
    WHERE run_id IS NULL AND source = 'person' AND turn IS NULL AND evidence = '[]' AND label IN ('pass', 'fail')
)
SELECT session_id, metric, run_metrics.version, scores.passed
FROM scores
JOIN runs USING (run_id)
JOIN {run_cells} AS cells USING (run_id, session_id)
LEFT JOIN run_metrics USING (run_id, metric)
SEMI JOIN derived.sessions USING (session_id)
SEMI JOIN (
    SELECT run_id, session_id FROM scores SEMI JOIN labels USING (session_id, metric)
    WHERE run_id IS NOT NULL AND passed IS NOT NULL
) USING (run_id, session_id)
WHERE list_contains($judges, runs.judge) AND coalesce(judge_calls, 0) + coalesce(judge_cache_hits, 0) > 0
    AND scores.outcome = 'score' AND scores.passed IS NOT NULL
QUALIFY rank() OVER (PARTITION BY session_id ORDER BY cells.graded_at DESC, run_id) = 1
ORDER BY session_id, metric
