-- Sessions in which a span or a log names a user: https://opentelemetry.io/docs/specs/semconv/registry/attributes/
INSERT INTO to_delete
SELECT DISTINCT coalesce(traces.session_id, spans.trace_id)
FROM spans LEFT JOIN derived.traces ON traces.trace_id = spans.trace_id
WHERE $user IN (spans.attributes->>'$."user.id"', spans.attributes->>'$."enduser.id"')
UNION
SELECT coalesce(traces.session_id, logs.trace_id, logs.attributes->>'$."gen_ai.conversation.id"')
FROM logs LEFT JOIN derived.traces ON traces.trace_id = logs.trace_id
WHERE $user IN (logs.attributes->>'$."user.id"', logs.attributes->>'$."enduser.id"')
