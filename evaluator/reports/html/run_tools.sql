-- The sessions that called each tool, by verdict, and how many of its calls failed.
SELECT
    tool_name AS name,
    count(DISTINCT session_id) AS sessions,
    count(DISTINCT session_id) FILTER (verdict = 'failed') AS failed,
    count(DISTINCT session_id) FILTER (verdict = 'broken') AS broken,
    count(*) AS calls,
    count(*) FILTER (NOT ok) AS failed_calls
FROM derived.tool_interactions JOIN {run_cells} USING (session_id)
WHERE run_id = $run
GROUP BY tool_name
ORDER BY failed + broken DESC, sessions DESC, name
LIMIT $limit
