-- The tag of the newest run of an agent with a name: 8 digits follow it and `@`, for other names begin with it, too. By arrival: clocks are set back.
SELECT tag
FROM (SELECT unnest(tags) AS tag, session_id FROM ({sessions}))
JOIN (SELECT session_id, max(first_seq) AS seq FROM derived.traces GROUP BY session_id) USING (session_id)
WHERE starts_with(tag, $begin) AND regexp_full_match(substr(tag, length($begin) + 1), '[0-9a-f]{{8}}')
GROUP BY tag
ORDER BY max(seq) DESC
LIMIT 1
