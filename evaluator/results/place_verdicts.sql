-- Give the verdicts of some runs, and those on the same sessions, their places: 1 is the one that a session shows, the latest
-- by a golden question if there is one, 2 the latest of the other kind, NULL an older one. Of runs of one moment the one with
-- the first id counts.
UPDATE verdicts SET place = placed.place
FROM (
    SELECT
        run_id, session_id,
        CASE
            WHEN row_number() OVER (PARTITION BY session_id, question_id IS NULL ORDER BY graded_at DESC, run_id) > 1 THEN NULL
            WHEN question_id IS NULL AND count(question_id) OVER (PARTITION BY session_id) > 0 THEN 2
            ELSE 1
        END AS place
    FROM {run_cells}
    WHERE (place IS NOT NULL OR run_id IN (SELECT unnest($runs)))
        AND session_id IN ({graded})
) AS placed
WHERE verdicts.run_id = placed.run_id
    AND verdicts.session_id = placed.session_id
    AND verdicts.place IS DISTINCT FROM placed.place
