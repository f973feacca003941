-- A session's own log has no trace: it belongs to the session whose conversation id it names.
SELECT
    attributes->>'$."gen_ai.conversation.id"' AS session_id,
    time_ns,
    attributes->'$."spangrade.state"' AS state
FROM logs
WHERE trace_id IS NULL AND seq > $seq
