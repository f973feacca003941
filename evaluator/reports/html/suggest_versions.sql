SELECT DISTINCT agent_version FROM derived.sessions WHERE agent_version IS NOT NULL ORDER BY agent_version LIMIT $limit
