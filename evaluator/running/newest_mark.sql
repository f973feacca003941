-- The tag of the newest run of an agent with a name: of those whose tag begins with it. By arrival: clocks are set back.
SELECT tag
FROM (SELECT unnest(tags) AS tag, session_id FROM ({sessions}))
JOIN (SELECT session_id, max(first_seq) AS seq FROM derived.traces GROUP BY session_id) USING (session_id)
WHERE starts_with(tag, $prefix)
GROUP BY tag
ORDER BY max(seq) DESC
LIMIT 1
