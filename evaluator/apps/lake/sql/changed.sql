-- The traces with new spans or logs, and those of the lake that move or repeat another trace's calls now.
CREATE TABLE changed AS
SELECT
    placed.trace_id,
    coalesce(traces.session_id, placed.session_id) AS session_id,
    traces.leader,
    known.session_id AS old_session_id,
    known.first_seq,
    known.last_seq,
    placed.records
FROM placed
LEFT JOIN derived.traces ON placed.trace_id = traces.trace_id
LEFT JOIN known ON placed.trace_id = known.trace_id
UNION ALL BY NAME
SELECT
    before.trace_id,
    traces.session_id,
    traces.leader,
    before.session_id AS old_session_id,
    before.first_seq,
    before.last_seq,
    before.records
FROM before
JOIN derived.traces USING (trace_id)
ANTI JOIN placed USING (trace_id)
WHERE traces.session_id <> before.session_id OR traces.leader IS DISTINCT FROM before.leader
