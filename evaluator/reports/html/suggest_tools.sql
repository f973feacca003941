SELECT DISTINCT tool_name FROM derived.tool_interactions ORDER BY tool_name LIMIT $limit
