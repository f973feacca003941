-- Sessions in their order, cut into slices of about equal numbers of records; a huge one is a slice of its own.
CREATE TABLE slices AS
WITH sizes AS (
    SELECT session_id, coalesce(sum(records), 0)::BIGINT AS records
    FROM affected_sessions
    LEFT JOIN whole USING (session_id)
    GROUP BY session_id
),
runs AS (
    SELECT *, count_if(records >= $most) OVER previous + count_if(records >= $most) OVER so_far AS run
    FROM sizes
    WINDOW so_far AS (ORDER BY session_id ROWS UNBOUNDED PRECEDING),
        previous AS (ORDER BY session_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
cut AS (
    SELECT *, (sum(records) OVER (PARTITION BY run ORDER BY session_id ROWS UNBOUNDED PRECEDING) - records) // $most AS piece
    FROM runs
)
SELECT session_id, dense_rank() OVER (ORDER BY run, piece) - 1 AS slice
FROM cut
