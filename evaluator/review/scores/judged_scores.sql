-- The scores with a threshold of the latest run that graded each session, with the thresholds of that run.
SELECT scores.session_id, scores.metric, scores.value, scores.passed, runs.thresholds
FROM scores
JOIN runs USING (run_id)
SEMI JOIN (
    {verdicts}
) AS latest ON latest.session_id = scores.session_id AND latest.run_id = scores.run_id
WHERE scores.passed IS NOT NULL
ORDER BY scores.session_id, scores.rowid
