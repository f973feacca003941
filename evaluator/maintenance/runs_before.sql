-- Runs that were graded before a time, and have no verdict that is shown of a session that stays (verdicts.place).
INSERT INTO runs_to_delete
SELECT run_id
FROM runs
WHERE graded_at < make_timestamp($before // 1000) AND run_id NOT IN (
    SELECT run_id FROM verdicts
    WHERE place IS NOT NULL AND session_id IS NOT NULL AND session_id NOT IN (FROM to_delete)
)
