-- Where a text first occurs in the sessions of a page, with the span that has it, of a message the turn: what people said first.
-- $json is the text as JSON has it inside of a string.
WITH fields AS (
    SELECT session_id, 1 AS rank, turn AS place, turn, NULL AS span_id, 'user' AS field, user_input AS content FROM derived.turns WHERE session_id IN ($page_ids)
    UNION ALL
    SELECT session_id, 2, turn, turn, NULL, 'reply', final_response FROM derived.turns WHERE session_id IN ($page_ids)
    UNION ALL
    SELECT session_id, 3, position, turn, span_id, tool_name, input_arguments FROM derived.tool_interactions WHERE session_id IN ($page_ids)
    UNION ALL
    SELECT session_id, 4, position, turn, span_id, tool_name || ' returned', output FROM derived.tool_interactions WHERE session_id IN ($page_ids)
    UNION ALL
    SELECT session_id, 5, 0, turn, span_id, tool_name || ' was requested', input_arguments FROM derived.requested_calls WHERE session_id IN ($page_ids)
)
SELECT session_id, turn, span_id, field, content
FROM (
    SELECT
        session_id, turn, span_id, field, rank, place,
        substr(content, greatest(hit_at - 80, 1)::BIGINT, 400) AS content
    FROM (
        SELECT *, if(strpos(lower(content), lower($text)) > 0, strpos(lower(content), lower($text)), strpos(lower(content), lower($json))) AS hit_at
        FROM fields
    )
    WHERE hit_at > 0
)
QUALIFY row_number() OVER (PARTITION BY session_id ORDER BY rank, place) = 1
