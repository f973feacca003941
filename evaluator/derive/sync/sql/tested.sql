-- Those of some sessions on which pytest stored a verdict.
SELECT DISTINCT session_id
FROM verdicts JOIN runs USING (run_id) SEMI JOIN wanted USING (session_id)
WHERE runs.dataset = 'pytest'
