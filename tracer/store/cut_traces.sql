-- Of the traces that a receiver was getting when it ended, the spans whose parent has not arrived, one for each parent.
-- A parent may be a caller's that is recorded elsewhere, or be filtered out. So a span counts only if spans of its name
-- and service have theirs in other traces, most of them, and none of a trace that was over before lacks it.
WITH recent AS (
    SELECT trace_id, span_id, parent_span_id, name, resource->>'$."service.name"' AS service, seq, end_ns
    FROM spans WHERE seq > $newest - 50_000  -- 20 minutes of 40 spans a second: this takes 60 ms
),
marked AS (
    SELECT trace_id FROM logs
    WHERE seq > $newest - 50_000 AND event_name = 'spangrade.receiver_restarted'
),
ended AS (SELECT least(max(end_ns), $now) AS time_ns FROM recent WHERE seq > $since),  -- a sender's clock may be ahead
traces AS (
    -- Five minutes after its last span a session is idle, by default.
    SELECT trace_id, max(seq) > $since AND max(end_ns) > any_value(ended.time_ns) - 300_000_000_000 AS was_open
    FROM recent, ended GROUP BY trace_id
),
found AS (
    SELECT recent.*, was_open, parents.span_id IS NOT NULL AS has_parent
    FROM recent
    JOIN traces USING (trace_id)
    LEFT JOIN (SELECT DISTINCT trace_id, span_id FROM recent) AS parents
        ON parents.trace_id = recent.trace_id AND parents.span_id = recent.parent_span_id
    ANTI JOIN marked ON marked.trace_id = recent.trace_id
    WHERE recent.parent_span_id IS NOT NULL
),
with_parents AS (
    SELECT name, service FROM found GROUP BY ALL
    HAVING count(*) FILTER (has_parent) >= count(*) FILTER (NOT has_parent)
        AND count(*) FILTER (NOT has_parent AND NOT was_open) = 0
)
SELECT trace_id, min(span_id) AS span_id
FROM found SEMI JOIN with_parents ON found.name = with_parents.name AND found.service IS NOT DISTINCT FROM with_parents.service
WHERE was_open AND NOT has_parent
GROUP BY trace_id, parent_span_id
