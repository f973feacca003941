-- The logs that the lake has of a slice: of its traces, of its sessions, and (in the first slice) of neither.
CREATE TEMP TABLE old_logs AS
SELECT logs.*
FROM lake.logs
WHERE trace_id IN (SELECT trace_id FROM planned WHERE old_session_id IS NOT NULL)
   OR trace_id IS NULL AND session_id IN (SELECT session_id FROM read_parquet({sessions}) WHERE slice = {slice})
   OR trace_id IS NULL AND session_id IS NULL AND {slice} = 0
