-- The newest runs with questions, the newest first, each with its questions and whether they passed.
SELECT
    run_id,
    any_value(name),
    any_value(git_branch),
    any_value(dataset),
    list(question_id ORDER BY question_id),
    list(passed ORDER BY question_id)
FROM runs JOIN (
    SELECT run_id, question_id, bool_and(verdict = 'passed') AS passed
    FROM {run_cells}
    WHERE question_id IS NOT NULL
    GROUP BY ALL
) USING (run_id)
WHERE day IS NULL                                                         -- not a rolling run of `watch`
GROUP BY run_id
ORDER BY any_value(graded_at) DESC, run_id
LIMIT $most
