-- How many sessions each stream has from $begin to $end, when the first and the last of them started, and the longest pause
-- between two of them, in seconds.
SELECT stream, count(*), min(start_ns), max(start_ns), max(pause_s), arg_max(session_id, start_ns)
FROM (
    SELECT
        coalesce({stream}, '') AS stream, session_id, start_ns,
        (start_ns - lag(start_ns) OVER (PARTITION BY coalesce({stream}, '') ORDER BY start_ns)) / 1e9 AS pause_s
    FROM derived.sessions
    WHERE start_ns >= $begin AND start_ns < $end AND ($origin = 'any' OR origin = $origin) {chosen}
)
GROUP BY stream ORDER BY stream
