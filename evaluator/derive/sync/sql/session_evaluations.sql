-- Session logs that are evaluation results: they name the conversation that they are about.
SELECT
    attributes->>'$."gen_ai.conversation.id"' AS session_id,
    time_ns,
    event_name,
    attributes::VARCHAR,
    scope_name
FROM logs
WHERE trace_id IS NULL AND session_id IS NOT NULL
    AND coalesce(event_name, attributes->>'$."event.name"') = 'gen_ai.evaluation.result'
