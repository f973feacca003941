-- Whether a batch has spans that are here. The lookup is bounded by its start times, so that DuckDB skips row
-- groups outside them.
SELECT 1
FROM (SELECT trace_id, span_id FROM spans WHERE start_ns BETWEEN $first AND $last)
SEMI JOIN incoming USING (trace_id, span_id)
LIMIT 1
