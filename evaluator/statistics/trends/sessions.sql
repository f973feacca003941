-- A number of each stored session, or of each model in it, with the question by which it was graded, else that of its spans.
SELECT sessions.session_id, coalesce(graded.question_id, sessions.question_id) AS question_id, {number} AS value, NULL AS records, {model} AS model
FROM {sessions} AS sessions LEFT JOIN (FROM {grades} WHERE shown) AS graded USING (session_id)
