-- What ran in the spans of sessions, and in which turn: as `span_places` in evaluator/metrics/causes.py.
SELECT session_id, span_id, name, turn
FROM (
    SELECT session_id, span_id, name, turn FROM derived.trajectory
    UNION ALL SELECT session_id, span_id, coalesce(model, 'the model'), turn FROM derived.llm_calls
    UNION ALL SELECT session_id, span_id, tool_name, turn FROM derived.tool_interactions
)
WHERE session_id IN (SELECT unnest($session_ids)) AND span_id IS NOT NULL
