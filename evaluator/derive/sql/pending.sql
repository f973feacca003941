-- The traces that got spans or logs since the last derivation, in the order of arrival.
SELECT trace_id, min(seq) AS first_seq, max(seq) AS last_seq, count(*) AS records
FROM (
    SELECT trace_id, seq FROM spans WHERE seq > $seq
    UNION ALL
    SELECT trace_id, seq FROM logs WHERE seq > $seq AND trace_id IS NOT NULL
)
GROUP BY trace_id
ORDER BY first_seq
