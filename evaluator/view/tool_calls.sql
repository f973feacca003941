-- The calls of each tool in the sessions of `$condition`, by `$by`, one of `BY`. Hand-offs are left out, and calls whose tool
-- did not run: they wait for approval, or were rejected. Percentiles by nearest rank, which quantile_disc is.
SELECT
    tool_name AS name,
    $by AS part,
    count(*) AS calls,
    count(*) FILTER (NOT ok) AS failed,
    count(*) - count(ok) AS unknown_outcomes,
    quantile_disc(latency_s, 0.5) AS p50_s,
    quantile_disc(latency_s, 0.95) AS p95_s
FROM derived.tool_interactions JOIN (SELECT session_id, agent_version FROM derived.sessions WHERE $condition) USING (session_id)
WHERE NOT handoff
    AND (approval IS NULL OR approval = 'approved')
    AND ($caller::VARCHAR IS NULL OR agent = $caller)
GROUP BY name, part
ORDER BY failed DESC, calls DESC, name, part
LIMIT $limit
