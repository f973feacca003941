-- The sessions that wait in a queue, in its order, and how many are in it. {reasons} are those of `review_queue` that bring a
-- session there, in their order; with $every the sessions without one follow. One that $author (NULL: anybody) labelled as a
-- whole is done, a dispute once it is none. Within a reason the order is that of the distance from a threshold, then that
-- which $seed shuffles, or the newest first. Of $people reviewers each has the sessions whose share, by the hash of their id,
-- is theirs; $only (NULL: all) are the ids among which they are. With $after only those that follow this session are listed.
-- What is counted and ordered has only ids and times: words and reasons are read for the sessions that are listed.
WITH reasons AS MATERIALIZED (
    SELECT session_id, min(rank) AS rank, arg_min(reason, rank) AS reason, arg_min(details, rank) AS details, arg_min(coalesce(distance, 0), rank) AS distance
    FROM (FROM {review_queue} SELECT *, list_position({reasons}, reason) AS rank)
    WHERE reason IN {reasons} AND coalesce(reviewer = $author, true)
    GROUP BY session_id
),
labelled AS MATERIALIZED (
    SELECT session_id
    FROM scores
    WHERE source = 'person' AND metric = $name AND evidence = '[]' AND turn IS NULL AND label IN ('pass', 'fail')
        AND session_id IS NOT NULL AND coalesce(author = $author, $author IS NULL)
),
placed AS (
    SELECT
        session_id,
        origin,
        coalesce(rank, 9) AS rank,
        coalesce(distance, 0) AS distance,
        CASE WHEN $shuffled THEN (md5_number_lower($seed || ' ' || session_id) >> 1)::BIGINT ELSE coalesce(-start_ns, 9223372036854775807) END AS place,
        $done_by_label AND session_id IN (FROM labelled) AS is_done
    FROM derived.sessions LEFT JOIN reasons USING (session_id)
    WHERE $every OR rank IS NOT NULL
),
queue AS (
    FROM placed
    WHERE ($origin = 'any' OR origin = $origin)
        AND ($only IS NULL OR session_id IN (SELECT unnest($only::VARCHAR[])))
        AND ($people = 1 OR md5_number_lower(session_id) % $people = $share)
),
waiting AS (
    SELECT session_id, queue.rank, queue.distance, place
    FROM queue
    WHERE NOT is_done AND coalesce(
        (queue.rank, queue.distance, place, session_id)
        > (SELECT (placed.rank, placed.distance, place, session_id) FROM placed WHERE session_id = $after),
        true
    )
    ORDER BY queue.rank, queue.distance, place, session_id
    LIMIT $limit
)
SELECT session_id, first_input, start_ns, reason, details, counted.total, counted.done
FROM (SELECT count(*) AS total, count(*) FILTER (is_done) AS done FROM queue) AS counted
LEFT JOIN (waiting JOIN derived.sessions USING (session_id)) ON true
LEFT JOIN reasons USING (session_id)
ORDER BY waiting.rank, waiting.distance, place, session_id
