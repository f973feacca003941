-- How many sessions of some streams have each value, by slot of the window.
SELECT stream, (start_ns - $begin) // $slot AS slot, bad, count(*)
FROM ({sessions}) SEMI JOIN wanted USING (stream)
GROUP BY ALL
