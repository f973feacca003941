-- A span may be delivered twice (exporters retry): only those that are not here yet go in. The look-up is
-- bounded by the batch's own start times, so that row groups outside them are skipped unread.
INSERT INTO spans BY NAME
SELECT incoming.*
FROM incoming
ANTI JOIN (
    SELECT trace_id, span_id FROM spans WHERE start_ns BETWEEN $first AND $last
) AS present USING (trace_id, span_id)
