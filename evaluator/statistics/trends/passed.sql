-- Whether each session passed (1) or failed (0) by the verdict that it shows; NULL for another verdict, and for one that is
-- older than its session.
SELECT session_id, question_id, CASE verdict WHEN 'passed' THEN 1.0 WHEN 'failed' THEN 0.0 END::DOUBLE AS value
FROM {grades} ANTI JOIN {arrived_since} USING (run_id, session_id)
WHERE shown
UNION ALL
SELECT session_id, question_id, NULL
FROM {grades} SEMI JOIN {arrived_since} USING (run_id, session_id)
WHERE shown
