-- The totals of each metric, as in results.json: percentiles by nearest rank, which quantile_disc is. What nobody asked for
-- and nothing recorded is not among them.
SELECT
    metric,
    count(value) FILTER (outcome = 'score') AS scores,
    avg(value) FILTER (outcome = 'score') AS mean,
    min(value) FILTER (outcome = 'score') AS smallest,
    quantile_disc(value, 0.5) FILTER (outcome = 'score') AS p50,
    quantile_disc(value, 0.95) FILTER (outcome = 'score') AS p95,
    max(value) FILTER (outcome = 'score') AS largest,
    count(*) FILTER (outcome = 'score' AND passed) AS passed,
    count(*) FILTER (outcome IN ('score', 'bound') AND NOT passed) AS failed,
    count(*) FILTER (outcome = 'inconclusive') AS inconclusive,
    count(*) FILTER (outcome = 'not_applicable') AS not_applicable,
    count(*) FILTER (outcome IN ('failure', 'judge_failure')) AS failures
FROM scores
WHERE run_id = $run AND session_id IS NOT NULL
GROUP BY metric
HAVING count(*) FILTER (outcome <> 'inconclusive') > 0 OR list_contains(
    (SELECT list_concat(metrics, json_keys(thresholds)) FROM runs WHERE run_id = $run), metric
)
ORDER BY min(rowid)
