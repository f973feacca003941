CREATE OR REPLACE VIEW state_variables AS
SELECT session_id, entry.key AS name, entry.value AS value
FROM derived.sessions, json_each(state_variables::JSON) AS entry
