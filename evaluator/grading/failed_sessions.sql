-- The sessions that missed a gate in the latest run that graded them.
SELECT scores.session_id
FROM scores JOIN runs USING (run_id)
WHERE scores.session_id IS NOT NULL
GROUP BY scores.session_id, run_id, runs.graded_at
QUALIFY row_number() OVER (PARTITION BY scores.session_id ORDER BY runs.graded_at DESC, run_id) = 1
    AND bool_or(scores.passed = false)
