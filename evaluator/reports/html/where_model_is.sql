-- The first call of a model in the sessions of a page.
SELECT session_id, turn, span_id, model AS name, '' AS content
FROM derived.llm_calls
WHERE batch IN ($page_batches) AND session_id IN ($page_ids) AND model = $model
QUALIFY row_number() OVER (PARTITION BY session_id ORDER BY position) = 1
