-- The sessions to be built from all their traces: until then, what is derived of them is out of date.
CREATE TABLE derived.changed (session_id VARCHAR NOT NULL)
