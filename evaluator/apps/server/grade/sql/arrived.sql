-- The sessions that got spans or logs after an arrival and were not graded with the last of these, that last
-- arrival, when the session started, and the number of its spans and logs. Session logs have no trace: they name their session.
SELECT session_id, arrived.seq, sessions.start_ns, sessions.records
FROM (
    SELECT session_id, max(seq) AS seq
    FROM (
        SELECT session_id, last_seq AS seq FROM derived.traces WHERE last_seq > $seq
        UNION ALL
        SELECT attributes->>'$."gen_ai.conversation.id"', seq FROM logs WHERE trace_id IS NULL AND seq > $seq
    )
    GROUP BY session_id
) AS arrived
JOIN derived.sessions AS sessions USING (session_id)
LEFT JOIN (SELECT session_id, max(seq) AS seq FROM watched WHERE gates = $gates GROUP BY session_id) AS graded
    USING (session_id)
WHERE (graded.seq IS NULL OR graded.seq < arrived.seq) AND ($origin = 'any' OR sessions.origin = $origin)
ORDER BY arrived.seq, session_id
