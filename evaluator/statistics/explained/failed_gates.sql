-- The failed gates of sessions, each with its evidence: by the run that is given, else by the verdict that a session shows.
SELECT scores.session_id, metric, scores.reason, evidence
FROM scores JOIN (FROM {grades} WHERE if($run_id IS NULL, shown, run_id = $run_id)) AS graded USING (run_id, session_id)
WHERE passed = false AND scores.session_id IN (SELECT unnest($session_ids))
