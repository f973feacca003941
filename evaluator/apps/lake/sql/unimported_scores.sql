-- The scores of a database file from people and programs that the lake does not have; those of traces are derived.
FROM (
    SELECT session_id, metric, value, passed, reason, evidence, source, author, turn, label, epoch_ns(scored_at) AS time_ns
    FROM one.scores
    WHERE run_id IS NULL AND source <> 'trace'
)
EXCEPT ALL
FROM (
    SELECT session_id, metric, value, passed, reason, evidence, source, author, turn, label, epoch_ns(scored_at)
    FROM store.scores
    WHERE run_id IS NULL AND source <> 'trace'
)
