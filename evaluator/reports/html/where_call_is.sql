-- The first call of a tool in the sessions of a page, of $failed the first that failed: `any` is of any tool.
SELECT session_id, turn, span_id, tool_name AS name, left(coalesce(input_arguments, ''), 200) AS content
FROM derived.tool_interactions
WHERE batch IN ($page_batches) AND session_id IN ($page_ids)
    AND ($tool::VARCHAR IS NULL OR tool_name = $tool)
    AND ($failed::VARCHAR IS NULL OR (ok = false AND $failed IN ('any', tool_name)))
QUALIFY row_number() OVER (PARTITION BY session_id ORDER BY position) = 1
