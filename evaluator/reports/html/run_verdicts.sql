-- How many sessions have each verdict; a golden question that no session answers is of the verdict NULL.
SELECT CASE WHEN session_id IS NULL THEN NULL ELSE verdict END AS verdict, count(*) AS number
FROM {run_cells}
WHERE run_id = $run
GROUP BY 1
