-- Sessions to review, in the order of their queue: the kinds are `failed` (the latest verdict failed or broke),
-- `disputed` (a person's label and the verdict of the metric differ), `sampled` (in an order that $seed shuffles) and
-- `unlabelled` (the newest first). A session that $author labelled is done. Of $people reviewers each has the
-- sessions whose share, by the hash of their id, is hers.
WITH latest AS (
    SELECT session_id, arg_max(verdict, (graded_at, run_id)) AS verdict, arg_max(reason, (graded_at, run_id)) AS reason
    FROM verdicts JOIN runs USING (run_id)
    WHERE session_id IS NOT NULL AND $kind = 'failed'
    GROUP BY session_id
),
labels AS (
    SELECT session_id, metric, passed, author FROM scores WHERE run_id IS NULL AND source = 'person' AND label IN ('pass', 'fail')
),
disputes AS (
    SELECT session_id, string_agg(DISTINCT labels.author || ' labelled ' || metric || ' ' || CASE WHEN labels.passed THEN 'pass' ELSE 'fail' END, '; ') AS reason
    FROM labels
    JOIN (
        SELECT session_id, metric, arg_max(passed, (graded_at, run_id)) AS passed
        FROM (
            SELECT session_id, run_id, metric, passed FROM scores WHERE run_id IS NOT NULL AND passed IS NOT NULL
            UNION ALL
            SELECT session_id, run_id, 'label', verdict = 'passed' FROM verdicts WHERE verdict IN ('passed', 'failed')
        ) JOIN runs USING (run_id)
        WHERE $kind = 'disputed'
        GROUP BY session_id, metric
    ) AS judged USING (session_id, metric)
    WHERE judged.passed <> labels.passed
    GROUP BY session_id
),
chosen AS (
    SELECT sessions.session_id, first_input, start_ns, latest.verdict, coalesce(latest.reason, disputes.reason) AS reason
    FROM derived.sessions
    LEFT JOIN latest USING (session_id)
    LEFT JOIN disputes USING (session_id)
    WHERE hash(sessions.session_id) % $people = $place
      AND CASE $kind
          WHEN 'failed' THEN latest.verdict IN ('failed', 'broken')
          WHEN 'disputed' THEN disputes.session_id IS NOT NULL
          ELSE true
      END
)
SELECT
    chosen.*,
    session_id IN (SELECT session_id FROM labels WHERE author = $author) AS is_done,
    count(*) OVER () AS of_all,
    count(*) FILTER (session_id IN (SELECT session_id FROM labels WHERE author = $author)) OVER () AS done
FROM chosen
ORDER BY
    is_done,
    CASE WHEN $kind = 'sampled' THEN hash(session_id || $seed) END,
    start_ns DESC NULLS LAST,
    session_id
LIMIT $limit
