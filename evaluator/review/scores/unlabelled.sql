-- The sessions of an origin that nobody has labelled.
SELECT session_id
FROM derived.sessions
WHERE ($origin = 'any' OR origin = $origin) AND session_id NOT IN (
    SELECT session_id
    FROM scores
    WHERE source = 'person' AND metric = $name AND evidence = '[]' AND label IN ('pass', 'fail') AND session_id IS NOT NULL
)
ORDER BY session_id
