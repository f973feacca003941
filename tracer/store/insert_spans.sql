-- A span may be delivered twice (exporters retry): insert only new ones, in their order. The lookup is bounded by
-- the batch's start times, so that DuckDB skips row groups outside them.
INSERT INTO spans BY NAME
SELECT * EXCLUDE position
FROM (SELECT *, row_number() OVER () AS position FROM incoming)
ANTI JOIN (
    SELECT trace_id, span_id FROM spans WHERE start_ns BETWEEN $first AND $last
) AS present USING (trace_id, span_id)
ORDER BY position
