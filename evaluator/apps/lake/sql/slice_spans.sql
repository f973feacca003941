-- The spans of a slice that landed, each once, the one of the highest rank; not those that the lake has (`old_spans`).
CREATE TEMP TABLE new_spans AS
SELECT * EXCLUDE (file_number, row_number, slice)
FROM (FROM read_parquet({files}, hive_partitioning = false)) AS landed
WHERE NOT EXISTS (
    SELECT 1
    FROM old_spans AS present
    WHERE present.trace_id = landed.trace_id AND present.span_id = landed.span_id AND {present_rank} >= {landed_rank}
)
QUALIFY row_number() OVER (PARTITION BY trace_id, span_id ORDER BY {landed_rank} DESC, file_number, row_number) = 1
ORDER BY file_number, row_number
