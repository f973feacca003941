-- The sessions that are listed, in their order. Which they are takes few columns: the others are read for them alone.
WITH listed AS MATERIALIZED (
    SELECT session_id, row_number() OVER () AS place
    FROM (
        SELECT session_id
        FROM derived.sessions {graded}
        WHERE {chosen}
        ORDER BY {order}, session_id
        {most}
    )
)
, alike AS (
    SELECT session_id, lag(session_id) OVER by_id AS before, lead(session_id) OVER by_id AS after
    FROM derived.sessions
    WHERE left(session_id, 8) IN (SELECT left(session_id, 8) FROM listed)
    WINDOW by_id AS (ORDER BY session_id)
), shortened AS (
    -- What begins no other id; at least eight characters, of which a few thousand random ids rarely have two alike.
    SELECT session_id, left(session_id, greatest(8, 1 + len(list_filter(
        range(1, 1 + length(session_id)), lambda n: left(session_id, n) IN (left(before, n), left(after, n))
    )))) AS short_id
    FROM alike JOIN listed USING (session_id)
)
SELECT
    shown.*,
    first_input,
    -- A question, or a run, of this name would be shown in its place.
    if(
        short_id IN (SELECT question_id FROM derived.sessions WHERE question_id IS NOT NULL)
            OR short_id IN (SELECT question_id FROM {{run_cells}} WHERE question_id IS NOT NULL)
            OR short_id IN (SELECT name FROM runs WHERE name IS NOT NULL),
        session_id, short_id
    ) AS short_id
FROM ({sessions}) AS shown
JOIN listed USING (session_id)
JOIN shortened USING (session_id)
JOIN derived.sessions AS derived USING (session_id)
ORDER BY place
