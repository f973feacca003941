-- The latest label of each person of what a metric measures, of each session as a whole.
SELECT session_id, author, label = 'pass' AS passed, coalesce(reason, '') AS note
FROM scores
SEMI JOIN derived.sessions USING (session_id)
WHERE run_id IS NULL AND source = 'person' AND metric IN (SELECT unnest($metrics::VARCHAR[])) AND turn IS NULL AND evidence = '[]'
    AND label IN ('pass', 'fail')
QUALIFY row_number() OVER (PARTITION BY session_id, author ORDER BY scored_at DESC, scores.rowid DESC) = 1
ORDER BY session_id, author
