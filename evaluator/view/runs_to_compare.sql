-- The latest runs of people, to choose from.
SELECT run_id, name, graded_at, dataset
FROM runs
WHERE day IS NULL
ORDER BY graded_at DESC, run_id
LIMIT $limit
