-- Sessions in which a span or a log names a user, under any of the names that sessions read (session_attributes.py).
INSERT INTO to_delete
SELECT DISTINCT coalesce(traces.session_id, spans.trace_id)
FROM spans LEFT JOIN derived.traces ON traces.trace_id = spans.trace_id
WHERE list_contains(json_extract_string(spans.attributes, $names::VARCHAR[]), $user)
UNION
SELECT coalesce(traces.session_id, logs.trace_id, logs.attributes->>'$."gen_ai.conversation.id"')
FROM logs LEFT JOIN derived.traces ON traces.trace_id = logs.trace_id
WHERE list_contains(json_extract_string(logs.attributes, $names::VARCHAR[]), $user)
