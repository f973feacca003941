-- The stored scores that incoming ones replace.
DELETE FROM scores USING incoming
WHERE scores.run_id IS NULL
    AND scores.session_id = incoming.session_id
    AND scores.metric = incoming.metric
    AND scores.source = incoming.source
    AND scores.author IS NOT DISTINCT FROM incoming.author
    AND scores.turn IS NOT DISTINCT FROM incoming.turn
    AND scores.evidence = incoming.evidence
    AND scores.scored_at <= make_timestamp(incoming.time_ns // 1000)
