-- What sessions ran with: versions, models and the like, and the number of their turns.
WITH them AS (SELECT * FROM derived.sessions SEMI JOIN chosen USING (session_id))
SELECT session_id, 'version' AS kind, 'version ' || agent_version AS fact, NULL AS span_id, 0 AS position
FROM them WHERE agent_version IS NOT NULL
UNION ALL
SELECT session_id, 'model', 'model ' || unnest(models::JSON::VARCHAR[]), NULL, 0 FROM them WHERE models IS NOT NULL
UNION ALL
SELECT session_id, 'version', 'prompt ' || unnest(prompts::JSON::VARCHAR[]), NULL, 0 FROM them WHERE prompts IS NOT NULL
UNION ALL
SELECT session_id, 'version', 'environment ' || environment, NULL, 0 FROM them WHERE environment IS NOT NULL
UNION ALL
SELECT session_id, 'version', 'service ' || service_name, NULL, 0 FROM them WHERE service_name IS NOT NULL
UNION ALL
SELECT session_id, 'input', turns || ' turns', NULL, 0 FROM them
