CREATE OR REPLACE VIEW question_metadata AS
SELECT run_id, question_id, entry.key AS key, entry.value->>'$' AS value
FROM run_questions JOIN golden_questions USING (digest), json_each(question::JSON->'metadata') AS entry
