-- The spans of a slice that landed, each once: not those that the lake has already (`old_spans`).
CREATE TEMP TABLE new_spans AS
SELECT * EXCLUDE (file_number, row_number, slice)
FROM (FROM read_parquet({files}, hive_partitioning = false))
ANTI JOIN old_spans USING (trace_id, span_id)
QUALIFY row_number() OVER (PARTITION BY trace_id, span_id ORDER BY file_number, row_number) = 1
ORDER BY file_number, row_number
