SELECT trigger_name, table_name FROM duckdb_triggers() WHERE database_name = 'store' LIMIT 1
