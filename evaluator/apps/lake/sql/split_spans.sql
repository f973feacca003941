-- The spans of some landing files with their slice, and where they are in the order of landing.
SELECT
    landed.* EXCLUDE (filename, file_row_number),
    {first} + list_position({files}, filename) AS file_number,
    file_row_number AS row_number,
    slice
FROM read_parquet({files}, filename = true, file_row_number = true, hive_partitioning = false) AS landed
JOIN (SELECT trace_id, slice FROM read_parquet({plan})) USING (trace_id)
