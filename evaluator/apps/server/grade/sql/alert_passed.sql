-- Whether each session since $begin passed (1) or failed (0) as `watch` graded it last by these gates; NULL for another
-- verdict. None was graded before it started, by any clock that is right to the day.
SELECT session_id, CASE arg_max(verdict, (seq, graded_ns)) WHEN 'passed' THEN 1.0 WHEN 'failed' THEN 0.0 END::DOUBLE AS value
FROM watched WHERE gates = $gates AND graded_ns >= $begin - 86400000000000 GROUP BY session_id
