-- The sessions of the lake that were derived again.
CREATE OR REPLACE TEMP TABLE replaced AS
SELECT session_id FROM read_parquet({sessions}) WHERE session_id IN (SELECT session_id FROM derived.traces)
