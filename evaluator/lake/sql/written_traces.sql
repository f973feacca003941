-- Which batches hold the spans and logs of the slice's traces: what is new or moves is written in this one.
UPDATE derived.traces SET
    first_seq = coalesce(kept.first_seq, $batch),
    last_seq = CASE WHEN kept.first_seq IS NULL OR fresh.trace_id IS NOT NULL THEN $batch ELSE kept.last_seq END,
    leader = planned.leader
FROM planned
LEFT JOIN (
    SELECT trace_id, first_seq, last_seq FROM planned WHERE old_session_id = session_id
) AS kept USING (trace_id)
LEFT JOIN (
    SELECT trace_id FROM new_spans UNION SELECT trace_id FROM new_logs WHERE trace_id IS NOT NULL
) AS fresh USING (trace_id)
WHERE traces.trace_id = planned.trace_id
