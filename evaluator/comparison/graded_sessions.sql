-- The sessions of a run with their verdicts, and the names of their steps in order (NULL: the session is gone).
WITH paths AS (
    SELECT session_id, list(name ORDER BY position) AS names
    FROM derived.trajectory
    SEMI JOIN (SELECT session_id FROM verdicts WHERE run_id = $run_id) USING (session_id)
    GROUP BY session_id
)
SELECT verdicts.session_id, verdicts.question_id, verdict, reason, if(sessions.session_id IS NULL, NULL, coalesce(names, []))
FROM verdicts
LEFT JOIN derived.sessions AS sessions USING (session_id)
LEFT JOIN paths USING (session_id)
WHERE run_id = $run_id AND verdicts.session_id IS NOT NULL
ORDER BY verdicts.question_id, verdicts.session_id
