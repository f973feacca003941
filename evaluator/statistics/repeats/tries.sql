-- How many sessions of each question of a run there are, how many passed, and how many neither passed nor failed.
SELECT question_id, count(*), count(*) FILTER (verdict = 'passed'), count(*) FILTER (verdict NOT IN ('passed', 'failed'))
FROM verdicts
WHERE run_id = $run_id AND session_id IS NOT NULL AND question_id IS NOT NULL
GROUP BY question_id
HAVING count(*) > 1
ORDER BY question_id
