-- The latest verdict on each session of each kind: by a golden question, and by a policy alone.
SELECT
    session_id,
    if(question_id IS NULL, 'policy', 'golden') AS kind,
    place = 1 AS shown,
    run_id,
    verdict,
    reason,
    question_id,
    coalesce(verdicts.given_at, runs.graded_at) AS graded_at,
    records
FROM verdicts JOIN runs USING (run_id)
WHERE place IS NOT NULL
