-- The verdicts on each labelled session, by the judge of their run, and whether a session shows that one.
WITH labelled AS (
    SELECT DISTINCT session_id FROM scores SEMI JOIN derived.sessions USING (session_id)
    WHERE run_id IS NULL AND source = 'person' AND metric IN (SELECT unnest($metrics::VARCHAR[])) AND turn IS NULL
        AND evidence = '[]' AND label IN ('pass', 'fail')
)
SELECT
    session_id, CASE verdict WHEN 'passed' THEN true WHEN 'failed' THEN false END AS passed, NULL::DOUBLE AS value,
    coalesce(reason, '') AS reason, coalesce(runs.judge, '') AS judge, '' AS version, cells.graded_at AS judged_at,
    coalesce(place = 1, false) AS latest
FROM {run_cells} AS cells JOIN runs USING (run_id) SEMI JOIN labelled USING (session_id)
QUALIFY row_number() OVER (PARTITION BY session_id, runs.judge ORDER BY latest DESC, cells.graded_at DESC, run_id) = 1
ORDER BY session_id
