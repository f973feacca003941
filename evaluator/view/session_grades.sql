-- The verdict of a run on each of some sessions or, without a run, of the latest one that graded it.
SELECT session_id, run_id, name, graded_at, dataset, question_id, verdict, verdicts.reason, thresholds
FROM verdicts JOIN runs USING (run_id)
WHERE session_id IN (SELECT unnest($sessions::VARCHAR[])) AND ($run_id IS NULL OR run_id = $run_id)
QUALIFY row_number() OVER (PARTITION BY session_id ORDER BY graded_at DESC, run_id) = 1
