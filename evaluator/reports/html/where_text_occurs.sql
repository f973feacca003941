-- Where a text first occurs in the sessions of a page, with the span that has it, of a message the turn: what people said first.
-- $json is the text as JSON has it inside of a string. The batches, which are numbers, leave few ids to compare.
WITH fields AS (
    SELECT session_id, turn AS place, turn, NULL AS span_id, unnest([{rank: 1, field: 'user', content: user_input}, {rank: 2, field: 'reply', content: final_response}]) AS one
    FROM derived.turns WHERE batch IN ($page_batches) AND session_id IN ($page_ids)
    UNION ALL
    SELECT session_id, position, turn, span_id, unnest([{rank: 3, field: tool_name, content: input_arguments}, {rank: 4, field: tool_name || ' returned', content: output}])
    FROM derived.tool_interactions WHERE batch IN ($page_batches) AND session_id IN ($page_ids)
    UNION ALL
    SELECT session_id, 0, turn, span_id, {rank: 5, field: tool_name || ' was requested', content: input_arguments}
    FROM derived.requested_calls WHERE batch IN ($page_batches) AND session_id IN ($page_ids)
),
found AS (
    SELECT *, if(strpos(lower(one.content), lower($text)) > 0, strpos(lower(one.content), lower($text)), strpos(lower(one.content), lower($json))) AS hit_at
    FROM fields
)
SELECT session_id, turn, span_id, one.field, substr(one.content, greatest(hit_at - 80, 1)::BIGINT, 400) AS content
FROM found
WHERE hit_at > 0
QUALIFY row_number() OVER (PARTITION BY session_id ORDER BY one.rank, place) = 1
