-- What each slot of time, of `$step` nanoseconds, brought, by a series: `$series` is one of `SERIES`. The verdicts are those that the sessions show,
-- without those that are older than their session, by the number of records, as in arrived_since.sql: to join all sessions for
-- that alone takes half as long again.
SELECT
    make_timestamp(((start_ns - $monday) // $step * $step + $monday) // 1000) AS slot,
    coalesce($series, '') AS series,
    count(*) AS sessions,
    count(verdict) AS graded,
    count(*) FILTER (verdict = 'passed') AS passed,
    favg(cost_usd) AS mean_cost_usd,  -- the same whatever order sessions are read in
    fsum(cost_usd) AS cost_usd,
    count(cost_usd) AS known_costs,
    count(*) - count(cost_usd) AS unknown_costs,
    sum(input_tokens + output_tokens) AS tokens,
    count(total_s) AS timed,
    quantile_disc(total_s, 0.5) AS p50_s,
    quantile_disc(total_s, 0.95) AS p95_s,
    count(*) FILTER (errors > 0) AS with_errors
FROM (
    SELECT sessions.*, if(graded.records <> sessions.records, NULL, verdict) AS verdict
    FROM $sessions AS sessions LEFT JOIN (FROM {grades} WHERE shown) AS graded USING (session_id)
)
WHERE start_ns >= $since AND start_ns < $until AND $condition
GROUP BY slot, series
ORDER BY slot, series
