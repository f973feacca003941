-- The value of a metric on each session since $begin, as `watch` graded it last by these gates.
SELECT session_id, value FROM scores SEMI JOIN (
    SELECT session_id, arg_max(run_id, (seq, graded_ns)) AS run_id
    FROM watched WHERE gates = $gates AND graded_ns >= $begin - 86400000000000 GROUP BY session_id
) AS last USING (session_id, run_id)
WHERE metric = $metric AND outcome = 'score'
