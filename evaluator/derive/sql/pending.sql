-- The traces that spans or logs have come in for since the last derivation, in the order in which they came.
SELECT trace_id, min(seq) AS first_seq, max(seq) AS last_seq, count(*) AS records
FROM (
    SELECT trace_id, seq FROM spans WHERE seq > $seq
    UNION ALL
    SELECT trace_id, seq FROM logs WHERE seq > $seq AND trace_id IS NOT NULL
)
GROUP BY trace_id
ORDER BY first_seq
