-- What the sessions of the last import lack and metrics read, by the code of the finding that lint makes of it.
WITH imported AS (
    SELECT DISTINCT session_id
    FROM derived.traces
    SEMI JOIN last_import USING (trace_id)
), answered AS (
    SELECT session_id, turn, input_tokens IS NULL OR output_tokens IS NULL AS uncounted
    FROM derived.llm_calls
    SEMI JOIN imported USING (session_id)
    WHERE NOT unanswered
), found AS (
    SELECT 'no_user_input' AS code, count(*) AS number
    FROM derived.turns
    SEMI JOIN imported USING (session_id)
    WHERE user_input IS NULL
    UNION ALL
    SELECT 'no_response', count(*)
    FROM derived.turns
    SEMI JOIN imported USING (session_id)
    SEMI JOIN answered USING (session_id, turn)
    WHERE final_response IS NULL AND NOT failed
    UNION ALL
    SELECT unnest(['no_tool_arguments', 'no_tool_result']), unnest([
        count(*) FILTER (NOT arguments_known),
        count(*) FILTER (ok IS NULL AND NOT output_known AND coalesce(approval = 'approved', true))
    ])
    FROM derived.tool_interactions
    SEMI JOIN imported USING (session_id)
    WHERE NOT handoff
    UNION ALL
    SELECT 'no_tokens', count(*) FROM answered WHERE uncounted
)
SELECT code, number FROM found WHERE number > 0
