-- Which verdict a session shows, found when a run is saved (evaluator/results/place_verdicts.sql).
ALTER TABLE verdicts ADD COLUMN IF NOT EXISTS place TINYINT;  -- 1: shown; 2: the latest of the other kind; NULL: older
UPDATE verdicts SET place = placed.place
FROM (
    SELECT
        run_id, session_id,
        CASE
            WHEN row_number() OVER (PARTITION BY session_id, question_id IS NULL ORDER BY graded_at DESC, run_id) > 1 THEN NULL
            WHEN question_id IS NULL AND count(question_id) OVER (PARTITION BY session_id) > 0 THEN 2
            ELSE 1
        END AS place
    FROM verdicts JOIN runs USING (run_id)
    WHERE session_id IS NOT NULL
) AS placed
WHERE verdicts.run_id = placed.run_id AND verdicts.session_id = placed.session_id AND placed.place IS NOT NULL;
