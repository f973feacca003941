-- The sessions of an origin that a person (NULL: nobody) has not labelled, in an order that $seed shuffles.
SELECT session_id
FROM derived.sessions
WHERE ($origin = 'any' OR origin = $origin) AND session_id NOT IN (
    SELECT session_id
    FROM scores
    WHERE source = 'person' AND metric = $name AND evidence = '[]' AND label IN ('pass', 'fail') AND session_id IS NOT NULL
        AND turn IS NULL AND coalesce(author = $author, $author IS NULL)
)
ORDER BY md5_number_lower($seed || ' ' || session_id), session_id
