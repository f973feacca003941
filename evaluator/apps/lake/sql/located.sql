-- Where the lake has the records of each trace, whatever version derived it.
CREATE TABLE located AS
SELECT trace_id, any_value(session_id) AS session_id, min(seq) AS first_seq, max(seq) AS last_seq, count(*) AS records
FROM (
    SELECT trace_id, session_id, seq FROM lake.spans
    UNION ALL
    SELECT trace_id, session_id, seq FROM lake.logs WHERE trace_id IS NOT NULL
)
GROUP BY trace_id
