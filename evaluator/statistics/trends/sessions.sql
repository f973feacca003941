-- A number of each stored session, with the question that it answers by the latest run that graded it, else by its spans.
SELECT sessions.session_id, coalesce(graded.question_id, sessions.question_id) AS question_id, {number} AS value
FROM derived.sessions AS sessions LEFT JOIN ({verdicts}) AS graded USING (session_id)
