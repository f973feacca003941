-- The first session of each of some pieces with about equal numbers of rows.
SELECT min(session_id)
FROM (
    SELECT session_id, (sum(rows) OVER (ORDER BY session_id) - rows) * {pieces} // sum(rows) OVER () AS piece
    FROM (
        SELECT session_id, count(*) AS rows
        FROM {table}
        WHERE filename IN {files} AND session_id IS NOT NULL
        GROUP BY session_id
    )
)
GROUP BY piece
ORDER BY piece
