-- The sessions of a run of an agent, in the order in which they began.
SELECT session_id, question_id, tags, cost_usd
FROM ({sessions})
WHERE list_contains(tags, $mark)
ORDER BY started_at, session_id
