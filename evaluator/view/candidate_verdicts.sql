-- The latest verdicts on the sessions of `candidates`.
SELECT session_id, verdict
FROM verdicts SEMI JOIN candidates USING (session_id) JOIN runs USING (run_id)
QUALIFY row_number() OVER (PARTITION BY session_id ORDER BY graded_at DESC, run_id) = 1
