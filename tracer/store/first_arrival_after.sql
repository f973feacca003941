-- The first record that may have arrived after a time. A clock that was set back does not make records older. Of a mark whose time
-- is still to come the clock was ahead: its records arrived before the next mark.
WITH marks AS (
    SELECT
        first_seq,
        coalesce(
            first_value(CASE WHEN time_ns <= $now THEN time_ns END IGNORE NULLS) OVER (
                ORDER BY first_seq, time_ns ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
            ),
            $now
        ) AS time_ns
    FROM arrivals
)
SELECT coalesce(max(first_seq), 0)
FROM (SELECT first_seq, max(time_ns) OVER (ORDER BY first_seq, time_ns) AS time_ns FROM marks)
WHERE time_ns <= $time
