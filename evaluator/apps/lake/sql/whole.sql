-- All traces of the sessions that must be derived.
CREATE TABLE whole AS
FROM changed
UNION ALL BY NAME
SELECT trace_id, session_id, leader, session_id AS old_session_id, first_seq, last_seq, records
FROM store.derived.traces
SEMI JOIN affected_sessions USING (session_id)
ANTI JOIN changed USING (trace_id)
