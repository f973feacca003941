-- The sessions that wait in a queue, in its order, and how many are in it. Its kind is `failed` (the latest verdict failed
-- or broke), `disputed` (a label of $author and the verdict of what it is about differ), `sampled` (in an order that $seed
-- shuffles) or `unlabelled` (the newest first). A session that $author labelled as a whole is done, a dispute once it is none. Of $people reviewers each has the
-- sessions whose share, by the hash of their id, is hers. With $after only those that follow this session are listed.
-- What is counted and ordered has only ids and times: words and reasons are read for the sessions that are listed.
WITH failed AS (SELECT session_id, reason FROM {grades} WHERE shown AND verdict IN ('failed', 'broken') AND $kind = 'failed'),
labels AS MATERIALIZED (
    SELECT session_id, metric, passed
    FROM scores
    WHERE run_id IS NULL AND source = 'person' AND author = $author AND evidence = '[]' AND turn IS NULL AND label IN ('pass', 'fail')
),
judged AS (
    SELECT session_id, metric, passed FROM {latest_scores} WHERE passed IS NOT NULL AND session_id IN (SELECT session_id FROM labels)
    UNION ALL
    SELECT session_id, 'label', verdict = 'passed' FROM {grades} WHERE shown AND verdict IN ('passed', 'failed')
),
disputes AS (
    SELECT session_id, string_agg(DISTINCT 'you labelled ' || metric || ' ' || CASE WHEN labels.passed THEN 'pass' ELSE 'fail' END, '; ') AS reason
    FROM labels JOIN judged USING (session_id, metric)
    WHERE $kind = 'disputed' AND judged.passed <> labels.passed
    GROUP BY session_id
),
placed AS (
    SELECT
        session_id,
        origin,
        CASE $kind WHEN 'sampled' THEN (md5_number_lower($seed || ' ' || session_id) >> 1)::BIGINT ELSE coalesce(-start_ns, 9223372036854775807) END AS place
    FROM derived.sessions
),
queue AS (
    SELECT session_id, place, $kind <> 'disputed' AND session_id IN (SELECT session_id FROM labels WHERE metric = 'label') AS is_done
    FROM placed
    WHERE ($origin = 'any' OR origin = $origin)
      AND ($people = 1 OR md5_number_lower(session_id) % $people = $share)
      AND CASE $kind
          WHEN 'failed' THEN session_id IN (SELECT session_id FROM failed)
          WHEN 'disputed' THEN session_id IN (SELECT session_id FROM disputes)
          ELSE true
      END
),
waiting AS (
    SELECT session_id, place
    FROM queue
    WHERE NOT is_done
      AND coalesce((place, session_id) > (SELECT (place, session_id) FROM placed WHERE session_id = $after), true)
    ORDER BY place, session_id
    LIMIT $limit
)
SELECT
    session_id,
    first_input,
    start_ns,
    coalesce(failed.reason, disputes.reason) AS reason,
    counted.total,
    counted.done
FROM (SELECT count(*) AS total, count(*) FILTER (is_done) AS done FROM queue) AS counted
LEFT JOIN (waiting JOIN derived.sessions USING (session_id)) ON true
LEFT JOIN failed USING (session_id)
LEFT JOIN disputes USING (session_id)
ORDER BY place, session_id
