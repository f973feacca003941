-- A session of an update that has more than one row: a lake has no keys.
SELECT session_id
FROM derived.sessions
SEMI JOIN read_parquet({sessions}) USING (session_id)
GROUP BY session_id
HAVING count(*) > 1
LIMIT 1
