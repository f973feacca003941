-- The calls of each model in `$parts` equal parts of the time from `$low` to `$high`, as in `model_calls.sql`.
SELECT
    model AS name, $by AS part,
    least((greatest(start_ns, $low) - $low) // (($high - $low) // $parts + 1), $parts - 1)::BIGINT AS place,
    count(*) AS calls, count(*) FILTER (unanswered OR broke) AS failed
FROM derived.llm_calls
    $sessions
    LEFT JOIN (SELECT DISTINCT session_id, trace_id, span_id, true AS broke FROM derived.errors WHERE span_id IS NOT NULL) USING (session_id, trace_id, span_id)
WHERE ($caller::VARCHAR IS NULL OR agent = $caller)
GROUP BY ALL
