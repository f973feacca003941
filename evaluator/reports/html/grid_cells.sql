-- The scores of some rows of a grid, in a run and in its baseline: the mean of the sessions of a question, how many of
-- them met the gate, their values where there is a baseline, and the gravest outcome of those that have no value. The reason
-- and the evidence are those of one session that did not meet it.
WITH wanted AS (
    SELECT run_id, session_id, cell AS key
    FROM {run_cells}
    WHERE run_id IN ($run, $base) AND cell IN (SELECT unnest($keys::VARCHAR[]))
)
SELECT
    key,
    run_id = $run AS is_run,
    metric,
    avg(value) FILTER (outcome = 'score' AND isfinite(value)) AS value,
    list(value) FILTER ($run <> $base AND outcome = 'score' AND isfinite(value)) AS session_values,
    count(*) FILTER (passed) AS passed,
    count(passed) AS judged,
    count(*) FILTER (outcome IN ('failure', 'judge_failure')) AS broken,
    count(*) FILTER (outcome = 'inconclusive') AS inconclusive,
    first(scores.reason ORDER BY passed NULLS LAST, session_id) AS reason,
    first(scores.evidence ORDER BY passed NULLS LAST, session_id) AS evidence
FROM scores JOIN wanted USING (run_id, session_id)
WHERE run_id IN ($run, $base)
GROUP BY ALL
