-- The traces that got spans or logs after an arrival and up to another, with all that came since then. Those that
-- are linked already, with all of these, are left out.
CREATE OR REPLACE TEMP TABLE new_traces AS
WITH arrived AS (
    SELECT trace_id, seq, false AS is_own FROM spans WHERE seq > $seq
    UNION ALL
    SELECT trace_id, seq, scope_name IS NOT DISTINCT FROM 'spangrade.watch' FROM logs WHERE seq > $seq AND trace_id IS NOT NULL
)
SELECT
    new.first_seq AS since,
    trace_id,
    least(new.first_seq, known.first_seq) AS first_seq,
    greatest(new.last_seq, known.last_seq) AS last_seq,
    new.records + coalesce(known.records, 0) AS records,
    known.trace_id IS NOT NULL AS is_known
FROM (
    SELECT trace_id, min(seq) AS first_seq, max(seq) AS last_seq, count(*) FILTER (NOT is_own) AS records
    FROM arrived SEMI JOIN (FROM arrived WHERE seq <= $last) AS sought USING (trace_id)
    GROUP BY trace_id
) AS new
LEFT JOIN (SELECT trace_id, first_seq, last_seq, records FROM derived.traces) AS known USING (trace_id)
WHERE known.trace_id IS NULL OR known.first_seq > new.first_seq OR known.last_seq < new.last_seq
