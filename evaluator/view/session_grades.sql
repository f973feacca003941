-- The verdict of a run on each of some sessions or, without a run, that which the session shows.
WITH wanted AS (
    SELECT run_id, session_id FROM {grades} WHERE shown AND $run_id IS NULL AND session_id IN (SELECT unnest($sessions::VARCHAR[]))
    UNION ALL
    SELECT $run_id, unnest($sessions::VARCHAR[]) WHERE $run_id IS NOT NULL
)
SELECT session_id, run_id, name, graded_at, dataset, question_id, verdict, verdicts.reason,
    (run_id, session_id) IN {arrived_since}, thresholds
FROM verdicts JOIN wanted USING (run_id, session_id) JOIN runs USING (run_id)
