-- The same for logs; one without a trace belongs to the session that it names.
SELECT
    logs.*,
    CASE
        WHEN logs.trace_id IS NULL THEN logs.attributes->>'$."gen_ai.conversation.id"'
        ELSE planned.session_id
    END AS session_id
FROM logs
LEFT JOIN planned ON logs.trace_id = planned.trace_id
WHERE logs.seq = {batch} OR planned.old_session_id <> planned.session_id
ORDER BY 12, time_ns
