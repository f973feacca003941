-- Traces that belong to no session in the list, because nothing in them could be read or derived; how they are called
-- in `to_delete`, and the name by which they are to be deleted: a conversation id or their own.
SELECT DISTINCT coalesce(traces.session_id, spans.trace_id), named.session_id
FROM spans
LEFT JOIN derived.traces ON traces.trace_id = spans.trace_id
ANTI JOIN derived.sessions ON sessions.session_id = traces.session_id
JOIN named ON named.session_id IN (
    traces.session_id,
    spans.trace_id,
    spans.attributes->>'$."gen_ai.conversation.id"',
    spans.attributes->>'$."session.id"'
)
