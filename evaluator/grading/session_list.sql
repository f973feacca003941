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
SELECT shown.* FROM ({sessions}) AS shown JOIN listed USING (session_id)
ORDER BY place
