-- The same for logs: a log record has no id, so all its identifying columns are compared.
SELECT logs.* EXCLUDE seq
FROM one.logs AS logs
WHERE NOT EXISTS (
    SELECT 1
    FROM store.logs AS present
    WHERE present.time_ns = logs.time_ns
      AND present.trace_id IS NOT DISTINCT FROM logs.trace_id
      AND present.span_id IS NOT DISTINCT FROM logs.span_id
      AND present.event_name IS NOT DISTINCT FROM logs.event_name
      AND present.body::VARCHAR IS NOT DISTINCT FROM logs.body::VARCHAR
      AND present.attributes::VARCHAR IS NOT DISTINCT FROM logs.attributes::VARCHAR
)
