-- The latest verdict on each session of each kind: by a golden question, and by a policy alone.
SELECT
    session_id, if(question_id IS NULL, 'policy', 'golden') AS kind, place = 1 AS shown, run_id, verdict, reason, question_id,
    graded_at, records
FROM {run_cells}
WHERE place IS NOT NULL
