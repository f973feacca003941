-- The sessions with their verdicts and the means of their external scores, for conditions.
SELECT listed.*, external.scores
FROM ({sessions}) AS listed
LEFT JOIN (
    SELECT session_id, map(list(metric), list(mean)) AS scores
    FROM (
        SELECT session_id, metric, avg(value) AS mean
        FROM scores
        WHERE run_id IS NULL AND value IS NOT NULL
        GROUP BY session_id, metric
    )
    GROUP BY session_id
) AS external USING (session_id)
