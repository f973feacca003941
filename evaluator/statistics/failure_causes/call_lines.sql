-- The calls that some spans of sessions record, in a line each.
WITH wanted AS (SELECT unnest($session_ids) AS session_id, unnest($span_ids) AS span_id)
SELECT
    session_id, span_id,
    first(
        tool_name || coalesce(' ' || input_arguments, '')
            || CASE WHEN ok = false THEN ' failed' || coalesce(': ' || error, '') ELSE coalesce(' → ' || output, '') END
        ORDER BY position
    )
FROM derived.tool_interactions SEMI JOIN wanted USING (session_id, span_id)
GROUP BY session_id, span_id
