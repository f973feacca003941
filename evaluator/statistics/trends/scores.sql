-- The value of a metric on each session in the latest run that measured it; NULL if it had none.
-- Of sessions that no run measured, the mean of the scores that people, traces and programs gave.
WITH by_runs AS (
    SELECT scores.session_id, scores.question_id, if(scores.outcome = 'score', scores.value, NULL) AS value
    FROM scores JOIN runs USING (run_id)
    WHERE scores.metric = $metric AND scores.session_id IS NOT NULL AND outcome <> 'not_applicable'
    QUALIFY row_number() OVER (PARTITION BY scores.session_id ORDER BY runs.graded_at DESC, run_id) = 1
)
FROM by_runs
UNION ALL
SELECT session_id, NULL, avg(value)
FROM scores ANTI JOIN by_runs USING (session_id)
WHERE run_id IS NULL AND metric = $metric AND session_id IS NOT NULL AND value IS NOT NULL
GROUP BY session_id
