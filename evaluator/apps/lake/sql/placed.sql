-- One row per trace. Of a trace in several parts, one conversation id is known, and no message places it.
CREATE TABLE placed AS
SELECT
    trace_id,
    CASE WHEN count(*) = 1 THEN any_value(scanned.session_id) ELSE max(conversation_id) END AS session_id,
    max(conversation_id) AS conversation_id,
    CASE WHEN count(*) = 1 THEN any_value(scanned.start_ns) ELSE coalesce(any_value(first_call_ns), 0) END AS start_ns,
    CASE WHEN count(*) = 1 THEN any_value(history) END AS history,
    CASE WHEN count(*) = 1 THEN any_value(request) END AS request,
    CASE WHEN count(*) = 1 THEN any_value(digests) ELSE '[]' END AS digests,
    sum(spans + logs)::BIGINT AS records
FROM scanned
LEFT JOIN (SELECT trace_id, min(start_ns) AS first_call_ns FROM calls GROUP BY trace_id) USING (trace_id)
GROUP BY trace_id
