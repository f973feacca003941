-- The same of their scores.
UPDATE scores SET scored_at = runs.graded_at
FROM runs
WHERE runs.run_id = $run_id AND scores.run_id = $run_id AND scores.session_id IN (FROM graded)
