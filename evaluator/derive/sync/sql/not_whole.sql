-- The traces of sessions that are to be built, but for those of which all records are observed.
CREATE OR REPLACE TEMP TABLE earlier AS
SELECT trace_id, first_seq, records
FROM derived.traces
SEMI JOIN derived.changed USING (session_id)
ANTI JOIN whole USING (trace_id)
