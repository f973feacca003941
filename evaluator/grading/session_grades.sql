-- The grades of some sessions: that of a run or, without one, the latest of each kind, that which a session shows first.
SELECT
    session_id, run_id, name, cells.graded_at, dataset, question_id, verdict, reason,
    (run_id, session_id) IN {arrived_since} AS arrived_since, thresholds
FROM {run_cells} AS cells JOIN runs USING (run_id)
WHERE session_id IN (SELECT unnest($sessions::VARCHAR[])) AND if($run_id IS NULL, place IS NOT NULL, run_id = $run_id)
ORDER BY place
