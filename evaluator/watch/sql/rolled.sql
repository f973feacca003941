-- When the verdicts of the sessions that a rolling run has just graded were made: its own time is that of the last ones.
UPDATE verdicts SET given_at = runs.graded_at
FROM runs
WHERE runs.run_id = $run_id AND verdicts.run_id = $run_id AND verdicts.session_id IN (FROM graded)
