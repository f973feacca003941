-- The calls of each model in the sessions of `$condition`, by `$by`, one of `BY`. A call failed if it was not answered, or if
-- an error began there. What was not answered has no tokens and costs nothing; sums are of the calls that record them.
SELECT
    model AS name,
    $by AS part,
    count(*) AS calls,
    count(*) FILTER (unanswered OR broke) AS failed,
    sum(input_tokens) AS input_tokens,
    sum(output_tokens) AS output_tokens,
    count(*) FILTER (NOT unanswered AND (input_tokens IS NULL OR output_tokens IS NULL)) AS unknown_tokens,
    sum(cost_usd) AS cost_usd,
    count(*) FILTER (NOT unanswered AND cost_usd IS NULL) AS unknown_costs,
    quantile_disc(latency_s, 0.5) AS p50_s,
    quantile_disc(latency_s, 0.95) AS p95_s
FROM derived.llm_calls
    JOIN (SELECT session_id, agent_version FROM derived.sessions WHERE $condition) USING (session_id)
    LEFT JOIN (SELECT DISTINCT session_id, trace_id, span_id, true AS broke FROM derived.errors) USING (session_id, trace_id, span_id)
WHERE $caller::VARCHAR IS NULL OR agent = $caller
GROUP BY name, part
ORDER BY cost_usd DESC NULLS LAST, calls DESC, name, part
LIMIT $limit
