-- What an interval needs of the values of each group. Several sessions of a question are one value: their mean. A value is
-- unknown if it is of a verdict that is older than its session, by the number of records, as in arrived_since.sql: to join all
-- sessions for that alone takes half as long again.
WITH measured AS (
    {values}
), grouped AS (
    SELECT {key} AS key, session_id, question_id, start_ns, records
    FROM derived.sessions
    WHERE coalesce(start_ns >= $since, $since IS NULL) AND coalesce(start_ns < $until, $until IS NULL)
      AND ($origin = 'any' OR origin = $origin)
), questions AS (
    SELECT
        key,
        coalesce('question ' || coalesce(graded_question, question_id), session_id) AS question,
        count(*) AS sessions,
        count(value) FILTER (isfinite(value)) AS measured,
        avg(value) FILTER (isfinite(value)) AS mean,
        min(start_ns) AS first_ns
    FROM (
        SELECT grouped.* REPLACE ({shown} AS key), measured.question_id AS graded_question, if(measured.records <> grouped.records, NULL, value) AS value
        FROM grouped JOIN measured USING (session_id)
    )
    GROUP BY ALL
), most_common AS (
    SELECT key, max(number) AS equal
    FROM (SELECT key, mean, count(*) AS number FROM questions WHERE mean IS NOT NULL GROUP BY ALL)
    GROUP BY key
)
SELECT
    questions.key,
    sum(measured)::BIGINT AS sessions,
    (sum(sessions) - sum(measured))::BIGINT AS unknown,
    count(mean) AS questions,
    coalesce(any_value(equal), 0) AS equal,
    coalesce(bool_and(mean IN ($low, $high)), true) AS binary,
    avg(mean) AS mean,
    var_samp(mean) AS variance
FROM questions LEFT JOIN most_common ON questions.key IS NOT DISTINCT FROM most_common.key
GROUP BY questions.key
ORDER BY {order}
