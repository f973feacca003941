-- The spans of a landing file that are not to be deleted.
FROM read_parquet({file}, hive_partitioning = false)
WHERE trace_id NOT IN (FROM read_parquet({traces}))
