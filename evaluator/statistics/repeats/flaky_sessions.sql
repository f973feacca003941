-- Of the questions of a run of which some sessions passed and some did not: at most 50 sessions of each kind.
SELECT session_id, name AS question_id, verdict, reason
FROM ({sessions})
QUALIFY count(DISTINCT verdict = 'passed') OVER (PARTITION BY name) = 2
    AND row_number() OVER (PARTITION BY name, verdict = 'passed' ORDER BY session_id) <= 50
