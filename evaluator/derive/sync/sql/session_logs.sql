-- Session logs have no trace: they belong to the session whose conversation id they name.
SELECT
    attributes->>'$."gen_ai.conversation.id"' AS session_id,
    time_ns,
    attributes->'$."spangrade.state"' AS state,
    attributes->>'$."spangrade.app_name"' AS app_name
FROM logs
WHERE trace_id IS NULL AND seq > $seq AND seq <= $last AND session_id IS NOT NULL
