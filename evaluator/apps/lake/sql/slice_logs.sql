-- The logs of a slice that landed. A log record has no id: if all its identifying columns are equal, it came again.
CREATE TEMP TABLE new_logs AS
SELECT * EXCLUDE (file_number, row_number, slice)
FROM (FROM read_parquet({files}, hive_partitioning = false)) AS landed
WHERE NOT EXISTS (
    SELECT 1
    FROM old_logs AS present
    WHERE present.time_ns = landed.time_ns
      AND present.trace_id IS NOT DISTINCT FROM landed.trace_id
      AND present.span_id IS NOT DISTINCT FROM landed.span_id
      AND present.event_name IS NOT DISTINCT FROM landed.event_name
      AND present.body::VARCHAR IS NOT DISTINCT FROM landed.body::VARCHAR
      AND present.attributes::VARCHAR IS NOT DISTINCT FROM landed.attributes::VARCHAR
)
QUALIFY row_number() OVER (
    PARTITION BY time_ns, trace_id, span_id, event_name, body::VARCHAR, attributes::VARCHAR
    ORDER BY {landed_rank} DESC, file_number, row_number
) = 1
ORDER BY file_number, row_number
