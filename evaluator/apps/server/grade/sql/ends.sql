-- When the last span of each of some sessions ended.
SELECT traces.session_id, max(greatest(spans.start_ns, spans.end_ns))
FROM spans
JOIN derived.traces AS traces USING (trace_id)
SEMI JOIN wanted ON wanted.session_id = traces.session_id
GROUP BY traces.session_id
