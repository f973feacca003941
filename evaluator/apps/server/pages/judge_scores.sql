-- What a metric found of each labelled session, by each judge and version of it, and whether that is the latest of the session.
-- Only scores are verdicts. The mean of the scores of people, which a run has under their name, is no measurement.
WITH labelled AS (
    SELECT DISTINCT session_id FROM scores SEMI JOIN derived.sessions USING (session_id)
    WHERE run_id IS NULL AND source = 'person' AND metric IN (SELECT unnest($metrics::VARCHAR[])) AND turn IS NULL
        AND evidence = '[]' AND label IN ('pass', 'fail')
)
SELECT
    session_id, if(outcome = 'score', passed, NULL) AS passed, value, coalesce(reason, '') AS reason,
    coalesce(runs.judge, '') AS judge, coalesce(run_metrics.version, '') AS version,
    coalesce(scores.scored_at, runs.graded_at) AS judged_at,
    row_number() OVER (PARTITION BY session_id ORDER BY judged_at DESC, run_id) = 1 AS latest
FROM scores JOIN runs USING (run_id) LEFT JOIN run_metrics USING (run_id, metric) SEMI JOIN labelled USING (session_id)
WHERE metric = $metric
    AND outcome <> 'not_applicable'
    AND NOT coalesce(run_metrics.unit = 'score' AND isinf(run_metrics.lowest) AND run_metrics.version IS NULL, false)
QUALIFY row_number() OVER (PARTITION BY session_id, judge, version ORDER BY judged_at DESC, run_id) = 1
ORDER BY session_id
