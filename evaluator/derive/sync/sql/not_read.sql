-- What the sessions of the last import record and nobody read: the model calls of turns without any text, of how
-- many calls, some of them of all kinds, the spans that no dialect understood by scope, how many of them look like calls of
-- tools, and whether a session has no id.
WITH imported AS (
    SELECT DISTINCT session_id
    FROM derived.traces
    SEMI JOIN last_import USING (trace_id)
), calls AS (
    SELECT calls.*, turns.user_input IS NULL AND turns.final_response IS NULL AS silent
    FROM derived.llm_calls AS calls
    SEMI JOIN imported USING (session_id)
    JOIN derived.turns AS turns USING (session_id, turn)
    WHERE NOT calls.unanswered AND NOT turns.driven
), kinds AS (  -- several instrumentations may record calls of one model
    SELECT min({'trace_id': trace_id, 'span_id': span_id}) AS place, count(*) AS calls
    FROM calls
    WHERE silent
    GROUP BY provider, model, agent, hash(trace_id) % 16
    ORDER BY calls DESC, place
    LIMIT $most
), scopes AS (
    SELECT scope, sum(spans)::BIGINT AS spans, sum(tools)::BIGINT AS tools
    FROM derived.not_understood
    SEMI JOIN last_import USING (trace_id)
    GROUP BY scope
)
SELECT
    count(*) FILTER (silent),
    count(*),
    (SELECT coalesce(list(place ORDER BY calls DESC, place), []) FROM kinds),
    (SELECT coalesce(map_from_entries(list((scope, spans))), MAP {}) FROM scopes),
    (SELECT coalesce(sum(tools), 0)::BIGINT FROM scopes),
    EXISTS (FROM derived.sessions SEMI JOIN imported USING (session_id) WHERE session_id_source = 'trace')
FROM calls
