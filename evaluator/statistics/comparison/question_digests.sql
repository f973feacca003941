-- The digest of each golden question that was answered, as it was when it was last graded.
SELECT question_id, arg_max(digest, graded_at)
FROM run_questions JOIN ({chosen}) USING (run_id, question_id)
GROUP BY question_id
