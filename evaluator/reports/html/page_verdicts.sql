-- The verdicts on the sessions of a page: of one run or, without one, those that the sessions show.
SELECT session_id, verdict, reason, question_id, records
FROM {run_cells}
WHERE session_id IN ($page_ids) AND if($run IS NULL, place = 1, run_id = $run)
