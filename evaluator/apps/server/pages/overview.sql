-- What the sessions of `$condition` that started from `$since` and before `$until` brought, and those of the period before,
-- from `$before` on, by the verdicts that they show. A label is a person's on the session as a whole.
SELECT
    start_ns >= $since AS now,
    count(*) AS sessions,
    count(*) FILTER (verdict = 'passed') AS passed,
    count(*) FILTER (verdict = 'failed') AS failed,
    count(*) FILTER (verdict = 'broken') AS broken,
    count(*) FILTER (verdict = 'inconclusive') AS inconclusive,
    count(*) FILTER (verdict = 'unmatched') AS unmatched,
    count(*) FILTER (verdict IS NULL) AS not_graded,
    count(*) FILTER (graded.records <> sessions.records) AS arrived_since,
    sum(cost_usd) AS cost_usd,
    avg(cost_usd) AS mean_cost_usd,
    count(*) - count(cost_usd) AS unknown_costs,
    quantile_disc(total_s, 0.5) AS p50_s,
    quantile_disc(total_s, 0.95) AS p95_s,
    count(*) FILTER (labelled IS NULL) AS unlabelled,
    count(*) FILTER (labelled IS NULL AND verdict IN ('failed', 'broken')) AS unlabelled_failures
FROM (SELECT session_id, start_ns, records, cost_usd, total_s FROM derived.sessions WHERE $condition AND start_ns >= $before AND start_ns < $until) AS sessions
    LEFT JOIN (FROM {grades} WHERE shown) AS graded USING (session_id)
    LEFT JOIN (
        SELECT DISTINCT session_id, true AS labelled FROM scores
        WHERE run_id IS NULL AND source = 'person' AND evidence = '[]' AND turn IS NULL AND label IN ('pass', 'fail')
    ) AS labels USING (session_id)
GROUP BY now
