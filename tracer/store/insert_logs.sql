-- A log record has no id: a record whose identifying columns are all equal was delivered again.
INSERT INTO logs BY NAME
SELECT incoming.*
FROM incoming
WHERE NOT EXISTS (
    SELECT 1
    FROM logs AS present
    WHERE present.time_ns BETWEEN $first AND $last
      AND present.time_ns = incoming.time_ns
      AND present.trace_id IS NOT DISTINCT FROM incoming.trace_id
      AND present.span_id IS NOT DISTINCT FROM incoming.span_id
      AND present.event_name IS NOT DISTINCT FROM incoming.event_name
      AND present.body::VARCHAR IS NOT DISTINCT FROM incoming.body
      AND present.attributes::VARCHAR IS NOT DISTINCT FROM incoming.attributes
)
