-- Which steps of sessions follow each other, the first and the last one, and the agents.
WITH steps AS (
    SELECT session_id, span_id, position, name, lag(name) OVER in_order AS before, lead(name) OVER in_order AS after
    FROM derived.trajectory SEMI JOIN chosen USING (session_id)
    WINDOW in_order AS (PARTITION BY session_id ORDER BY position)
)
SELECT session_id, 'step' AS kind, coalesce(name || ' right after ' || before, 'begins with ' || name) AS fact, span_id, position
FROM steps
UNION ALL
SELECT session_id, 'step', 'ends with ' || name, span_id, position FROM steps WHERE after IS NULL
UNION ALL
SELECT session_id, 'step', 'agent ' || name, span_id, position
FROM derived.trajectory SEMI JOIN chosen USING (session_id)
WHERE kind = 'agent'
