-- One score that no run made, by its key.
DELETE FROM scores
WHERE run_id IS NULL
    AND session_id = $session_id
    AND metric = $name
    AND source = $source
    AND author IS NOT DISTINCT FROM $author
    AND turn IS NOT DISTINCT FROM $turn
    AND evidence = $evidence
