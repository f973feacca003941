-- Cost and latency of the sessions of a run: percentiles by nearest rank, which quantile_disc is.
SELECT
    what,
    count(value) AS known,
    count(*) - count(value) AS unknown,
    sum(value) AS total,
    min(value) AS smallest,
    quantile_disc(value, 0.5) AS p50,
    quantile_disc(value, 0.9) AS p90,
    quantile_disc(value, 0.95) AS p95,
    quantile_disc(value, 0.99) AS p99,
    max(value) AS largest
FROM (
    SELECT unnest(['cost', 'latency']) AS what, unnest([cost_usd, total_s]) AS value
    FROM derived.sessions JOIN {run_cells} USING (session_id)
    WHERE run_id = $run
)
GROUP BY what
ORDER BY what
