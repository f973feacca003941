-- What people labelled, and how many sessions, of those of $sessions (NULL: all): a metric, or the session as a whole.
SELECT if(metric = $label, $passed, metric) AS metric, count(DISTINCT session_id) AS sessions, count(DISTINCT author) AS people
FROM scores
SEMI JOIN derived.sessions USING (session_id)
WHERE run_id IS NULL AND source = 'person' AND turn IS NULL AND evidence = '[]' AND label IN ('pass', 'fail')
    AND ($sessions IS NULL OR session_id IN (SELECT unnest($sessions::VARCHAR[])))
GROUP BY ALL
ORDER BY sessions DESC, metric
LIMIT $limit
