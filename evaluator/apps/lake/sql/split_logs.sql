-- The same for logs. One without a trace belongs to the session that it names, if it names one.
SELECT
    landed.* EXCLUDE (filename, file_row_number, named),
    {first} + list_position({files}, filename) AS file_number,
    file_row_number AS row_number,
    coalesce(of_trace.slice, of_session.slice, 0) AS slice
FROM (
    SELECT *, attributes::JSON->>'$."gen_ai.conversation.id"' AS named
    FROM read_parquet({files}, filename = true, file_row_number = true, hive_partitioning = false)
) AS landed
LEFT JOIN (SELECT trace_id, slice FROM read_parquet({plan})) AS of_trace ON landed.trace_id = of_trace.trace_id
LEFT JOIN (SELECT session_id, slice FROM read_parquet({sessions})) AS of_session
    ON landed.trace_id IS NULL AND landed.named = of_session.session_id
