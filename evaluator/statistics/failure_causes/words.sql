-- The words of the user in sessions, without those that have digits. A regular expression that finds words takes 12 times as long.
SELECT session_id, 'input' AS kind, 'the user says "' || word || '"' AS fact, NULL AS span_id, 0 AS position
FROM (
    SELECT session_id, unnest(string_split(lower(translate(
        left(user_input, 2000), '.,;:!?¿¡()[]{}<>"“”„«»''‘’/\' || chr(10) || chr(9), '                            '
    )), ' ')) AS word
    FROM derived.turns SEMI JOIN chosen USING (session_id)
)
WHERE length(word) BETWEEN 3 AND 30 AND NOT regexp_matches(word, '\d')
