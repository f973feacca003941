-- The spans of a database file that the lake does not have. The catalog knows which files hold which times.
SELECT spans.* EXCLUDE seq
FROM one.spans AS spans
ANTI JOIN (
    SELECT trace_id, span_id
    FROM store.spans
    WHERE start_ns BETWEEN (SELECT min(start_ns) FROM one.spans) AND (SELECT max(start_ns) FROM one.spans)
) USING (trace_id, span_id)
