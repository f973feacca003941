-- The alarms with the sessions that show them: those that are still on first, then the newest.
SELECT
    alarm_id, alert, rule, stream_by, stream, cause, started_ns, ended_ns, since_ns, sessions, value, limit_value, before, text,
    filters,
    coalesce((
        SELECT list(session_id ORDER BY place) FROM alarm_sessions AS shown
        WHERE shown.alarm_id = alarms.alarm_id AND shown.stream = alarms.stream
    ), [])
FROM alarms
WHERE (alarm_id = $alarm_id OR $alarm_id IS NULL) AND (ended_ns IS NULL OR NOT $only_on)
ORDER BY ended_ns IS NOT NULL, started_ns DESC, alarm_id, stream
LIMIT $limit
