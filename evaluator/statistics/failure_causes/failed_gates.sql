-- The failed gates of sessions, each with its evidence: by the run that is given, else by the verdict that a session shows.
SELECT session_id, metric, reason, evidence
FROM scores
WHERE passed = false
    AND session_id IN (SELECT unnest($session_ids))
    AND if(
        $run_id IS NULL,
        (run_id, session_id) IN (SELECT (run_id, session_id) FROM {grades} WHERE shown),
        run_id = $run_id
    )
