-- What the runs of the chosen sessions record of their metrics, the newest run last.
SELECT metric, higher_is_better, lowest, highest, unit, threshold, version
FROM run_metrics JOIN (SELECT DISTINCT run_id, graded_at FROM ({chosen})) USING (run_id)
ORDER BY graded_at, run_id
