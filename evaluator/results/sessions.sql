-- The sessions with the verdict that each shows, and the question by which it was graded.
SELECT listed.* REPLACE (coalesce(graded.question_id, listed.question_id) AS question_id), graded.verdict
FROM ({sessions}) AS listed LEFT JOIN (FROM {grades} WHERE shown) AS graded USING (session_id)
