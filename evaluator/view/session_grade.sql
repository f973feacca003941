-- The verdict of each run on a session, the latest run first, or that of one run.
SELECT run_id, graded_at, dataset, question_id, verdict, verdicts.reason, thresholds
FROM verdicts JOIN runs USING (run_id)
WHERE session_id = $session_id AND ($run_id IS NULL OR run_id = $run_id)
ORDER BY graded_at DESC, run_id
LIMIT 1
