-- The sessions with which each range of about that number of records begins.
SELECT min(session_id)
FROM (
    SELECT session_id, (sum(records) OVER (ORDER BY session_id) - records) // $most AS part
    FROM (SELECT session_id, sum(records) AS records FROM located GROUP BY session_id)
)
GROUP BY part
ORDER BY part
