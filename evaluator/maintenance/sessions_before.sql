-- Sessions whose last span and last log lie before a time and arrived before the record `first_kept`. A trace without a session is deleted by its own id.
-- The times of those whose recording has none are made up.
INSERT INTO to_delete
SELECT session_id
FROM (
    SELECT coalesce(traces.session_id, spans.trace_id) AS session_id, greatest(spans.start_ns, spans.end_ns) AS last_ns, spans.seq
    FROM spans LEFT JOIN derived.traces ON traces.trace_id = spans.trace_id
    UNION ALL
    SELECT
        coalesce(traces.session_id, logs.trace_id, logs.attributes->>'$."gen_ai.conversation.id"'),
        logs.time_ns,
        logs.seq
    FROM logs LEFT JOIN derived.traces ON traces.trace_id = logs.trace_id
)
GROUP BY session_id
HAVING session_id IS NOT NULL AND max(last_ns) < $before AND max(seq) < $first_kept
    AND session_id NOT IN (SELECT session_id FROM derived.sessions WHERE contains(tags, '"spangrade.times=unknown"'))
