-- What the lake has of each trace, of which nothing was known when its session was looked for.
UPDATE whole
SET old_session_id = located.session_id, first_seq = located.first_seq, last_seq = located.last_seq
FROM located
WHERE whole.trace_id = located.trace_id
