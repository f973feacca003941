-- Incoming scores of which no newer one is stored.
INSERT INTO scores BY NAME
SELECT
    session_id, metric, value, passed, 'score' AS outcome, reason, evidence,
    source, author, turn, label, make_timestamp(time_ns // 1000) AS scored_at
FROM incoming
WHERE NOT EXISTS (
    FROM scores
    WHERE scores.run_id IS NULL
        AND scores.session_id = incoming.session_id
        AND scores.metric = incoming.metric
        AND scores.source = incoming.source
        AND scores.author IS NOT DISTINCT FROM incoming.author
        AND scores.turn IS NOT DISTINCT FROM incoming.turn
        AND scores.evidence = incoming.evidence
)
