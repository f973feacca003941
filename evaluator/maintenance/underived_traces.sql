-- Traces that could not be derived, and the name of theirs by which they are to be deleted: a conversation id or their own.
SELECT DISTINCT spans.trace_id, named.session_id
FROM spans
ANTI JOIN derived.traces ON traces.trace_id = spans.trace_id
JOIN named ON named.session_id IN (
    spans.trace_id,
    spans.attributes->>'$."gen_ai.conversation.id"',
    spans.attributes->>'$."session.id"'
)
