-- The scores with a threshold of the run whose verdict each session shows, with the thresholds of that run.
SELECT scores.session_id, scores.metric, scores.value, scores.passed, runs.thresholds
FROM scores
JOIN runs USING (run_id)
SEMI JOIN (FROM {grades} WHERE shown) AS graded USING (session_id, run_id)
WHERE scores.passed IS NOT NULL
ORDER BY scores.session_id, scores.rowid
