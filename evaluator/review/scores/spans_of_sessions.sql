-- Which of the incoming spans the sessions have.
SELECT DISTINCT session_id, span_id
FROM spans
JOIN derived.traces USING (trace_id)
SEMI JOIN incoming USING (session_id, span_id)
