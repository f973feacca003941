-- The verdicts that are older than their sessions: spans or logs of these arrived since.
SELECT run_id, session_id
FROM verdicts JOIN derived.sessions AS sessions USING (session_id)
WHERE verdicts.records <> sessions.records
