-- Whether a deletion has not freed its space yet.
SELECT 1 FROM duckdb_tables()
WHERE database_name = 'store' AND schema_name = 'main' AND table_name = 'unfinished_deletion'
