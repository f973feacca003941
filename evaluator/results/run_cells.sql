-- Every verdict of every run, with the name of the run. `cell` is what two runs have in common: the question or, of a session
-- that answers none, the session.
SELECT
    run_id,
    coalesce(runs.name, left(run_id, 8)) AS run,
    session_id,
    question_id,
    coalesce(question_id, session_id) AS cell,
    verdict,
    reason,
    coalesce(verdicts.given_at, runs.graded_at) AS graded_at,
    place::BIGINT AS place,
    records
FROM verdicts JOIN runs USING (run_id)
