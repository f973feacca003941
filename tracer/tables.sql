-- The tables of the attached database `store`, without its views: these would run someone else's SQL.
SELECT replace(schema_name, '"', '""'), replace(table_name, '"', '""')
FROM duckdb_tables()
WHERE database_name = 'store' AND NOT internal
ORDER BY ALL
