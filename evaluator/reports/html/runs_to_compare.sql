-- The runs of people, to choose from; beside a run those first that have questions or sessions in common by their dataset, the
-- one before it first.
SELECT run_id, name, graded_at, dataset
FROM runs
WHERE run_id IS DISTINCT FROM $run AND day IS NULL
ORDER BY
    dataset = (SELECT dataset FROM runs WHERE run_id = $run) DESC,
    graded_at < (SELECT graded_at FROM runs WHERE run_id = $run) DESC,
    graded_at DESC,
    run_id
LIMIT $limit
