-- The scores of a metric with a verdict, of the latest run that has any; one of people comes before those of `watch`.
SELECT run_id, session_id, value, passed
FROM scores
SEMI JOIN derived.sessions USING (session_id)
WHERE metric = $metric AND outcome = 'score' AND passed IS NOT NULL AND run_id = (
    SELECT run_id FROM runs
    SEMI JOIN (SELECT run_id FROM scores WHERE metric = $metric AND passed IS NOT NULL) USING (run_id)
    ORDER BY day IS NOT NULL, graded_at DESC, run_id
    LIMIT 1
)
ORDER BY session_id
