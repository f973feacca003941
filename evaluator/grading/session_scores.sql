-- The scores of a run on each of some sessions, in the order in which they were written.
SELECT session_id, metric, value, passed, outcome, reason, evidence
FROM scores
WHERE run_id = $run_id AND session_id IN (SELECT unnest($sessions::VARCHAR[]))
ORDER BY rowid
