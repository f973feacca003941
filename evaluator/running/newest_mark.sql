-- The tag of the newest run of an agent with a name: of those whose tag begins with it.
SELECT tag
FROM (SELECT unnest(tags) AS tag, started_at FROM ({sessions}))
WHERE starts_with(tag, $prefix)
GROUP BY tag
ORDER BY max(started_at) DESC
LIMIT 1
