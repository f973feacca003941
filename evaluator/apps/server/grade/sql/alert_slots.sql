-- How many sessions each stream has in each slot of the window, from 0, and the mean of the values up to the stream's cap.
SELECT stream, (start_ns - $begin) // $slot AS slot, count(*), avg(least(bad, coalesce(cap, 'inf'::DOUBLE)))
FROM ({sessions}) LEFT JOIN caps USING (stream)
GROUP BY ALL
