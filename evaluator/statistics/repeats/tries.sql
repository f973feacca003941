-- How many sessions of each question of a run there are, how many passed, and how many neither passed nor failed.
SELECT
    name, count(*), count(*) FILTER (verdict = 'passed'), count(*) FILTER (verdict NOT IN ('passed', 'failed')),
    any_value(question_id), any_value(versions), any_value(sets), any_value(prompt_sets), any_value(runs)
FROM ({sessions})
GROUP BY name
HAVING count(*) > 1
ORDER BY name
