-- How many sessions of the last import without an id have a span with this attribute and value.
SELECT count(DISTINCT traces.session_id)
FROM spans
JOIN derived.traces USING (trace_id)
SEMI JOIN last_import USING (trace_id)
SEMI JOIN (FROM derived.sessions WHERE session_id_source = 'trace') USING (session_id)
WHERE contains(spans.attributes, $written)
