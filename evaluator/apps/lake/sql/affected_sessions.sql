-- The sessions that must be derived: those that changed traces belong or belonged to, and those that logs name.
CREATE TABLE affected_sessions AS
SELECT session_id FROM changed
UNION
SELECT old_session_id FROM changed WHERE old_session_id IS NOT NULL
UNION
SELECT session_id FROM named_in_logs
