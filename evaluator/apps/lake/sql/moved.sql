-- The traces of the lake that belong to another session now.
CREATE OR REPLACE TEMP TABLE moved AS
SELECT trace_id FROM read_parquet({plan}) WHERE old_session_id <> session_id
