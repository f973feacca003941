-- The value of a metric on each session from $begin to $end, by stream, in their order.
SELECT coalesce({stream}, '') AS stream, start_ns, session_id, value
FROM (
    SELECT * FROM derived.sessions
    WHERE start_ns >= $begin AND start_ns < $end AND ($origin = 'any' OR origin = $origin) {chosen}
) AS sessions
JOIN ({values}) AS measured USING (session_id)
WHERE isfinite(value)
ORDER BY stream, start_ns, session_id
