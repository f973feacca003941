-- The calls of each tool in the sessions that `$sessions` joins, by `$by`, one of `BY`. Hand-offs are left out, and calls whose tool
-- did not run: they wait for approval, or were rejected. Percentiles by nearest rank, which quantile_disc is.
SELECT * EXCLUDE (percentiles), percentiles[1] AS p50_s, percentiles[2] AS p95_s
FROM (
    SELECT
        tool_name AS name,
        $by AS part,
        count(*) AS calls,
        count(*) FILTER (NOT ok) AS failed,
        count(*) - count(ok) AS unknown_outcomes,
        quantile_disc(latency_s, [0.5, 0.95]) AS percentiles
    FROM derived.tool_interactions $sessions
    WHERE NOT handoff
        AND (approval IS NULL OR approval = 'approved')
        AND ($caller::VARCHAR IS NULL OR agent = $caller)
    GROUP BY name, part
)
ORDER BY failed DESC, calls DESC, name, part
LIMIT $limit
