-- Each golden question that was answered, as it was when it was last graded.
SELECT question_id, last(question ORDER BY graded_at, run_id DESC)
FROM run_questions JOIN ({chosen}) AS chosen USING (run_id, question_id) JOIN golden_questions USING (digest)
GROUP BY question_id
