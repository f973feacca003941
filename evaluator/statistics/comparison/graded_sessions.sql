-- Sessions with their verdicts, and the names of their steps in order (NULL: the session is gone).
WITH chosen AS ({chosen}), paths AS (
    SELECT session_id, list(name ORDER BY position) AS names
    FROM derived.trajectory SEMI JOIN chosen USING (session_id)
    GROUP BY session_id
)
SELECT chosen.session_id, chosen.question_id, verdict, reason, if(sessions.session_id IS NULL, NULL, coalesce(names, []))
FROM chosen
LEFT JOIN derived.sessions AS sessions USING (session_id)
LEFT JOIN paths USING (session_id)
ORDER BY chosen.question_id, chosen.session_id
