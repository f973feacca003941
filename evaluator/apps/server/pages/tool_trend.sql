-- The calls of each tool in `$parts` equal parts of the time from `$low` to `$high`, as in `tool_calls.sql`.
SELECT
    tool_name AS name, $by AS part,
    least((greatest(start_ns, $low) - $low) // (($high - $low) // $parts + 1), $parts - 1)::BIGINT AS place,
    count(*) AS calls, count(*) FILTER (NOT ok) AS failed
FROM derived.tool_interactions $sessions
WHERE NOT handoff AND (approval IS NULL OR approval = 'approved') AND ($caller::VARCHAR IS NULL OR agent = $caller)
GROUP BY ALL
