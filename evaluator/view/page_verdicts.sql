-- The verdicts on the sessions of a page: of one run or, without one, those that the sessions show.
SELECT session_id, verdict, reason, question_id, (run_id, session_id) IN {arrived_since}
FROM {grades}
WHERE shown AND $run IS NULL AND session_id IN ($page_ids)
UNION ALL
SELECT session_id, verdict, reason, question_id, (run_id, session_id) IN {arrived_since}
FROM verdicts
WHERE run_id = $run AND session_id IN ($page_ids)
