-- Those of some sessions on which pytest stored a verdict.
SELECT DISTINCT session_id
FROM {run_cells} JOIN runs USING (run_id) SEMI JOIN wanted USING (session_id)
WHERE runs.dataset = 'pytest'
