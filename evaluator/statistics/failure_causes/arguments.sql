-- The arguments of the calls of sessions by their paths: that one is there, of which type, and its value if it is short.
WITH leaves AS (
    SELECT
        session_id, span_id, position, leaf.type,
        tool_name || '(' || regexp_replace(substr(leaf.fullkey, 3), '\[\d+\]', '[]', 'g') || ')' AS path,
        if(leaf.type IN ('OBJECT', 'ARRAY'), NULL, leaf.atom::VARCHAR) AS atom
    FROM (SELECT * FROM derived.tool_interactions SEMI JOIN chosen USING (session_id)) AS calls, json_tree(input_arguments) AS leaf
    WHERE arguments_known AND json_valid(input_arguments) AND length(leaf.fullkey) BETWEEN 3 AND 100
)
SELECT session_id, 'argument' AS kind, path || ' is given' AS fact, span_id, position FROM leaves
UNION ALL
SELECT
    session_id, 'argument',
    path || ' is ' || CASE type
        WHEN 'VARCHAR' THEN 'a text' WHEN 'BOOLEAN' THEN 'true or false' WHEN 'NULL' THEN 'null' WHEN 'OBJECT' THEN 'an object'
        WHEN 'ARRAY' THEN 'a list' ELSE 'a number' END,
    span_id, position
FROM leaves
UNION ALL
SELECT session_id, 'argument', path || ' = ' || atom, span_id, position FROM leaves WHERE length(atom) <= 40
