-- How bad each session from $begin to $end is by a metric, by stream. It is 0 or more, and more is worse.
SELECT coalesce({stream}, '') AS stream, session_id, start_ns, {bad} AS bad
FROM (
    SELECT * FROM derived.sessions
    WHERE start_ns >= $begin AND start_ns < $end AND ($origin = 'any' OR origin = $origin) {chosen}
) AS sessions
JOIN ({values}) AS measured USING (session_id)
WHERE isfinite(value)
