-- The runs of people, or the rolling ones of `watch`, the latest first, with the number of sessions of each verdict.
SELECT
    run_id, name, graded_at, dataset,
    count(session_id) AS sessions,
    count(session_id) FILTER (verdict = 'passed') AS passed,
    count(session_id) FILTER (verdict = 'failed') AS failed,
    count(session_id) FILTER (verdict = 'inconclusive') AS inconclusive,
    count(session_id) FILTER (verdict = 'broken') AS broken,
    count(session_id) FILTER (verdict = 'unmatched') AS unmatched
FROM runs LEFT JOIN verdicts USING (run_id)
WHERE (day IS NOT NULL) = $watched
GROUP BY ALL
ORDER BY graded_at DESC, run_id
LIMIT $limit OFFSET $offset
