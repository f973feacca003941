-- What failed in sessions, with the type of the error where its message begins with one.
SELECT
    session_id, 'error' AS kind,
    "where" || ' failed' || coalesce(
        ': ' || nullif(regexp_extract(message, '^(?:\w*\.)*([A-Za-z_]\w{0,79})(?::|$)', 1), ''), ''
    ) AS fact,
    span_id, 0 AS position
FROM derived.errors SEMI JOIN chosen USING (session_id)
UNION ALL
SELECT session_id, 'error', 'a turn ends in an error', NULL, 0
FROM derived.turns SEMI JOIN chosen USING (session_id)
WHERE failed
