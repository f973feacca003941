-- The columns of a file's tables, but the derived ones, that a lake does not have, and whether it has not the table.
SELECT
    'main.' || one.table_name AS table_name,
    one.column_name,
    one.data_type,
    one.table_name NOT IN (
        SELECT table_name FROM duckdb_tables() WHERE database_name = $lake AND schema_name = 'main'
    ) AS is_new
FROM duckdb_columns() AS one
SEMI JOIN duckdb_tables() AS tables USING (database_name, schema_name, table_name)
ANTI JOIN (FROM duckdb_columns() WHERE database_name = $lake) AS known USING (schema_name, table_name, column_name)
WHERE one.database_name = $other AND one.schema_name = 'main'
ORDER BY ALL
