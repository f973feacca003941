SELECT DISTINCT unnest(agents::JSON::VARCHAR[]) AS name
FROM (SELECT DISTINCT agents FROM derived.sessions WHERE agents IS NOT NULL)
ORDER BY name
LIMIT $limit
