SELECT
    session_id, metric, value, source, epoch_ns(scored_at) AS time_ns,
    label, passed, author, reason, turn, evidence
FROM scores
WHERE run_id IS NULL AND ($sessions IS NULL OR session_id IN (SELECT unnest($sessions::VARCHAR[])))
ORDER BY session_id, scored_at, metric, author, turn
