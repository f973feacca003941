-- The latest runs, to choose from.
SELECT run_id, name, graded_at, dataset
FROM runs
ORDER BY graded_at DESC, run_id
LIMIT $limit
