-- The sessions once for each model that they called, with what its calls cost, read and wrote, and took on average, as the
-- session's own numbers, and its name as `model`; a session without recorded calls as it is, with none. As for a session,
-- one unknown price makes a sum unknown, and a call that was not answered costs nothing.
SELECT sessions.* REPLACE (
        if(calls IS NULL, sessions.cost_usd, calls.cost_usd) AS cost_usd,
        if(calls IS NULL, sessions.input_tokens, calls.input_tokens) AS input_tokens,
        if(calls IS NULL, sessions.output_tokens, calls.output_tokens) AS output_tokens,
        if(calls IS NULL, sessions.total_s, calls.latency_s) AS total_s
    ), calls.model
FROM derived.sessions LEFT JOIN (
    SELECT
        session_id, model, avg(latency_s) AS latency_s,
        if(bool_or(cost_usd IS NULL AND NOT unanswered), NULL, fsum(cost_usd)) AS cost_usd,
        if(bool_or(input_tokens IS NULL AND NOT unanswered), NULL, sum(input_tokens)) AS input_tokens,
        if(bool_or(output_tokens IS NULL AND NOT unanswered), NULL, sum(output_tokens)) AS output_tokens
    FROM derived.llm_calls GROUP BY session_id, model
) AS calls USING (session_id)
