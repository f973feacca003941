-- A span may be delivered twice (exporters retry): insert only new ones. The lookup is bounded by the batch's
-- start times, so that DuckDB skips row groups outside them.
INSERT INTO spans BY NAME
SELECT incoming.*
FROM incoming
ANTI JOIN (
    SELECT trace_id, span_id FROM spans WHERE start_ns BETWEEN $first AND $last
) AS present USING (trace_id, span_id)
