-- Which batches hold the spans and logs of the slice's traces: what is new is of this one.
UPDATE derived.traces SET
    first_seq = coalesce(planned.first_seq, $batch),
    last_seq = CASE WHEN planned.first_seq IS NULL OR fresh.trace_id IS NOT NULL THEN $batch ELSE planned.last_seq END,
    leader = planned.leader
FROM planned
LEFT JOIN (
    SELECT trace_id FROM new_spans UNION SELECT trace_id FROM new_logs WHERE trace_id IS NOT NULL
) AS fresh USING (trace_id)
WHERE traces.trace_id = planned.trace_id
