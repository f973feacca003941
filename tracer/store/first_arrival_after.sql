-- The first record that may have arrived after a time. A clock that was set back does not make records older.
SELECT coalesce(max(first_seq), 0)
FROM (SELECT first_seq, max(time_ns) OVER (ORDER BY first_seq, time_ns) AS time_ns FROM arrivals)
WHERE time_ns <= $time
