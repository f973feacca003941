-- In how many of the chosen sessions of each part each fact is.
WITH chosen AS (SELECT unnest($session_ids) AS session_id, unnest($parts) AS part), facts AS ({facts})
SELECT kind, fact, list(part), list(sessions)
FROM (
    SELECT kind, fact, part, count(DISTINCT session_id) AS sessions
    FROM facts JOIN chosen USING (session_id)
    GROUP BY kind, fact, part
)
GROUP BY kind, fact
HAVING sum(sessions) >= $least
