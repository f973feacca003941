-- Each metric of a run over its sessions; quantile_disc is the nearest rank.
SELECT
    metric, avg(value) AS mean, quantile_disc(value, 0.5) AS p50, quantile_disc(value, 0.95) AS p95,
    count(*) FILTER (passed) AS passed, count(*) FILTER (NOT passed) AS failed,
    count(*) FILTER (outcome = 'inconclusive') AS inconclusive,
    count(*) FILTER (outcome IN ('failure', 'judge_failure')) AS broken
FROM scores
WHERE run_id = $run_id AND session_id IS NOT NULL
GROUP BY metric
ORDER BY min(rowid)
