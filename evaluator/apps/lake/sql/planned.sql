-- The traces of a slice: their session, the one whose calls they repeat, and what the lake has of them.
CREATE TEMP TABLE planned AS
SELECT trace_id, session_id, leader, old_session_id, first_seq, last_seq
FROM read_parquet({plan})
WHERE slice = {slice}
