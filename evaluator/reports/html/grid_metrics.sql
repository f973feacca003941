-- The metrics of a run: the gates that the most sessions did not meet, then those that are inconclusive in the most, the
-- other gates, what is only reported; equal ones in the order in which they were measured. What nobody asked for and nothing
-- recorded is not among them.
SELECT measured.metric, higher_is_better, unit, judged, lowest, highest
FROM (
    SELECT metric, min(rowid) AS place,
        count(passed) > 0 OR coalesce(
            list_contains((SELECT json_keys(thresholds) FROM runs WHERE run_id = $run), metric), false
        ) AS judged,
        count(*) FILTER (NOT passed OR outcome IN ('failure', 'judge_failure')) AS not_met,
        count(*) FILTER (outcome = 'inconclusive') AS inconclusive,
        count(*) FILTER (passed OR (outcome = 'score' AND isfinite(value))) AS valued
    FROM scores
    WHERE run_id = $run
    GROUP BY metric
) AS measured
LEFT JOIN (FROM run_metrics WHERE run_id = $run) AS known USING (metric)
WHERE valued > 0 OR not_met > 0 OR judged OR list_contains((SELECT metrics FROM runs WHERE run_id = $run), metric)
ORDER BY judged DESC, CASE WHEN judged THEN (not_met, inconclusive) END DESC, place
LIMIT $limit
