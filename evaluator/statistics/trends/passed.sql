-- Whether each session passed (1) or failed (0) by the verdict that it shows; NULL for another verdict.
SELECT session_id, question_id, CASE verdict WHEN 'passed' THEN 1.0 WHEN 'failed' THEN 0.0 END::DOUBLE AS value, records
FROM {grades}
WHERE shown
