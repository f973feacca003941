-- The value of a metric on each session in the latest run that measured it; NULL if it had none.
-- Of sessions that no run measured, the mean of the scores that people, traces and programs gave.
WITH by_runs AS (
    SELECT session_id, question_id, if(outcome = 'score', value, NULL) AS value
    FROM {latest_scores}
    WHERE metric = $metric
)
SELECT *, NULL AS records
FROM by_runs
UNION ALL
SELECT session_id, NULL, avg(value), NULL
FROM scores ANTI JOIN by_runs USING (session_id)
WHERE run_id IS NULL AND metric = $metric AND session_id IS NOT NULL AND value IS NOT NULL
GROUP BY session_id
