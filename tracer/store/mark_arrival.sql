-- A mark before the next record, unless there is one of the last hour: by either side, as clocks are set back too.
INSERT INTO arrivals
SELECT coalesce(last_value, 0) + 1, $now
FROM duckdb_sequences()
WHERE database_name = 'store' AND schema_name = 'main' AND sequence_name = 'arrival'
    AND NOT EXISTS (FROM arrivals WHERE abs(time_ns - $now) < 3_600_000_000_000)
