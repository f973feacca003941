-- The sessions in which each agent took part, by verdict.
SELECT
    name,
    count(*) AS sessions,
    count(*) FILTER (verdict = 'failed') AS failed,
    count(*) FILTER (verdict = 'broken') AS broken
FROM (
    SELECT unnest(list_distinct(agents::JSON::VARCHAR[])) AS name, verdict
    FROM derived.sessions JOIN {run_cells} USING (session_id)
    WHERE run_id = $run AND agents IS NOT NULL
)
GROUP BY name
ORDER BY failed + broken DESC, sessions DESC, name
LIMIT $limit
