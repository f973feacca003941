-- The calls of each model in the sessions that `$sessions` joins, by `$by`, one of `BY`. A call failed if it was not answered, or if
-- an error began there. What was not answered has no tokens and costs nothing; sums are of the calls that record them.
SELECT * EXCLUDE (percentiles), percentiles[1] AS p50_s, percentiles[2] AS p95_s
FROM (
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
        quantile_disc(latency_s, [0.5, 0.95]) AS percentiles
    FROM derived.llm_calls
        $sessions
        LEFT JOIN (SELECT DISTINCT session_id, trace_id, span_id, true AS broke FROM derived.errors WHERE span_id IS NOT NULL) USING (session_id, trace_id, span_id)
    WHERE $caller::VARCHAR IS NULL OR agent = $caller
    GROUP BY name, part
)
ORDER BY cost_usd DESC NULLS LAST, calls DESC, name, part
LIMIT $limit
