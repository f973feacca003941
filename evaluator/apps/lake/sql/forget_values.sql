-- The least and the greatest text of each column of a table, whatever it holds: NULL would mean that it holds none.
UPDATE {metadata}.ducklake_table_column_stats
SET min_value = '', max_value = $greatest
WHERE min_value IS NOT NULL
  AND (table_id, column_id) IN (
      SELECT (table_id, column_id) FROM {metadata}.ducklake_column WHERE column_type IN ('varchar', 'json')
  )
