-- What the file defines under a name of DuckDB's own: names are looked up in the default database first.
-- Listing the functions is most of the cost, so it is done once.
SELECT 'function' AS kind, min(function_name) FILTER (database_name = 'system') AS name
FROM duckdb_functions()
GROUP BY lower(function_name)
HAVING bool_or(database_name = 'store') AND bool_or(database_name = 'system')
UNION ALL
SELECT 'type', type_name
FROM duckdb_types()
WHERE database_name = 'system' AND lower(type_name) IN (
    SELECT lower(type_name) FROM duckdb_types()
    WHERE database_name = 'store' AND type_oid IS NOT NULL  -- built-in types are listed for each database
)
UNION ALL
SELECT 'view', view_name
FROM duckdb_views()
WHERE database_name = 'system' AND lower(view_name) IN (
    SELECT lower(view_name) FROM duckdb_views() WHERE database_name = 'store' AND schema_name = 'main'
    UNION ALL
    SELECT lower(table_name) FROM duckdb_tables() WHERE database_name = 'store' AND schema_name = 'main'
)
UNION ALL
-- `store.x` would be ambiguous.
SELECT 'schema', schema_name
FROM duckdb_schemas()
WHERE database_name = 'store' AND lower(schema_name) IN (SELECT database_name FROM duckdb_databases())
LIMIT 1
