-- The slots of time, of `$step` nanoseconds, in which a version of the agent was recorded for the first time, but for the
-- first version of all.
SELECT
    make_timestamp(((first_ns - $monday) // $step * $step + $monday) // 1000) AS slot,
    list(agent_version ORDER BY first_ns) AS versions
FROM (
    SELECT agent_version, min(start_ns) AS first_ns
    FROM derived.sessions
    WHERE agent_version IS NOT NULL AND start_ns IS NOT NULL AND $condition
    GROUP BY agent_version
    QUALIFY first_ns > min(first_ns) OVER ()
)
WHERE first_ns >= $since AND first_ns < $until
GROUP BY slot
ORDER BY slot
