-- What is written of a slice's spans: those that are new, and all of a trace that moves. Sorted, so that a session
-- is in one place of one file.
SELECT spans.*, planned.session_id
FROM spans
JOIN planned USING (trace_id)
WHERE spans.seq = {batch} OR planned.old_session_id <> planned.session_id
ORDER BY planned.session_id, start_ns, span_id
