SELECT DISTINCT unnest(models::JSON::VARCHAR[]) AS name
FROM (SELECT DISTINCT models FROM derived.sessions WHERE models IS NOT NULL)
ORDER BY name
LIMIT $limit
