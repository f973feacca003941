-- The rolling run of some gates on a day.
SELECT run_id FROM runs WHERE day = $day::DATE AND tags->>'$.watch' = $gates ORDER BY graded_at DESC, run_id LIMIT 1
