-- The newest session of a golden question, and their number; of a run, if one is given: those that it graded by the question.
-- There is none if a session has this id itself.
SELECT session_id, count(*) OVER ()
FROM ({sessions})
WHERE question_id = $question
    AND NOT EXISTS (FROM derived.sessions WHERE session_id = $question)
    AND (
        $run IS NULL
        OR session_id IN (SELECT session_id FROM verdicts WHERE run_id = $run AND question_id = $question)
    )
ORDER BY start_ns DESC NULLS LAST, session_id
LIMIT 1
