-- The metrics of a run, its gates first, each in the order in which they were measured.
SELECT measured.metric, higher_is_better, unit, judged
FROM (
    SELECT metric, min(rowid) AS place, count(passed) > 0 AS judged
    FROM scores
    WHERE run_id = $run
    GROUP BY metric
) AS measured
LEFT JOIN (FROM run_metrics WHERE run_id = $run) AS known USING (metric)
ORDER BY judged DESC, place
LIMIT $limit
