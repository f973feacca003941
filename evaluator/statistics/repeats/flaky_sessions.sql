-- Of the questions of a run of which some sessions passed and some did not: at most 50 sessions of each kind.
SELECT session_id, question_id, verdict, reason
FROM verdicts
WHERE run_id = $run_id AND session_id IS NOT NULL AND question_id IS NOT NULL
QUALIFY count(DISTINCT verdict = 'passed') OVER (PARTITION BY question_id) = 2
    AND row_number() OVER (PARTITION BY question_id, verdict = 'passed' ORDER BY session_id) <= 50
