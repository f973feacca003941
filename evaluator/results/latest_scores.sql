-- What each metric found of each session in the latest run that measured it. The mean of the scores of people, which a run
-- has under the name of the score where no metric has it, is not a measurement.
SELECT
    scores.session_id, metric, run_id, scores.question_id, scores.value, scores.passed, scores.outcome, scores.reason,
    coalesce(scores.scored_at, runs.graded_at) AS graded_at
FROM scores JOIN runs USING (run_id) LEFT JOIN run_metrics USING (run_id, metric)
WHERE scores.session_id IS NOT NULL
    AND scores.outcome <> 'not_applicable'
    AND NOT coalesce(run_metrics.unit = 'score' AND isinf(run_metrics.lowest) AND run_metrics.version IS NULL, false)
QUALIFY row_number() OVER (PARTITION BY scores.session_id, metric ORDER BY coalesce(scores.scored_at, runs.graded_at) DESC, run_id) = 1
