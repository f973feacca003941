-- The verdicts on the sessions of a page: of one run or, without one, of the latest run that graded each.
SELECT session_id, verdict, verdicts.reason, question_id
FROM verdicts JOIN runs USING (run_id)
WHERE session_id IN ($page_ids)
  AND ($run IS NULL OR run_id = $run)
QUALIFY row_number() OVER (PARTITION BY session_id ORDER BY graded_at DESC, run_id) = 1
