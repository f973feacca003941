-- The verdict on each session in the latest run that graded it.
SELECT verdicts.session_id, verdicts.verdict, verdicts.reason, verdicts.question_id, runs.run_id, runs.graded_at, runs.dataset
FROM verdicts JOIN runs USING (run_id)
WHERE verdicts.session_id IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY verdicts.session_id ORDER BY runs.graded_at DESC, run_id) = 1
