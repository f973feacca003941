-- The sessions to be built, in the order of arrival, and how many spans and logs they have.
SELECT session_id, coalesce(sum(records), 0)::BIGINT AS records
FROM (SELECT DISTINCT session_id FROM derived.changed)
LEFT JOIN derived.traces USING (session_id)
GROUP BY session_id
ORDER BY min(first_seq), session_id
