-- The spans of a session without their attributes, in the order in which they started. The bounds let DuckDB skip
-- row groups.
WITH own AS (FROM derived.traces WHERE session_id = $session_id)
SELECT trace_id, span_id, parent_span_id, name, start_ns, end_ns, status, status_message, scope_name
FROM spans SEMI JOIN own USING (trace_id)
WHERE seq BETWEEN (SELECT min(first_seq) FROM own) AND (SELECT max(last_seq) FROM own)
ORDER BY start_ns, seq
