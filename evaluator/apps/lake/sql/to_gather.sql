-- The traces of which no part says where they belong: those that the lake knows already, and those in several parts,
-- unless exactly one conversation id is named in them and nothing else could change that.
SELECT
    trace_id,
    list_sort(list(DISTINCT part)) AS parts,
    sum(spans + logs)::BIGINT + coalesce(any_value(known.records), 0) AS records,
    any_value(known.first_seq) AS first_seq,
    any_value(known.last_seq) AS last_seq
FROM scanned
LEFT JOIN known USING (trace_id)
GROUP BY trace_id
HAVING any_value(known.trace_id) IS NOT NULL
    OR count(*) > 1 AND (
        count(DISTINCT scanned.conversation_id) <> 1
        OR bool_or(scanned.conversation_id IS NOT NULL AND conversation_ids = 0) OR max(conversation_ids) > 1 OR sum(logs) > 0 OR $by_attributes
    )
ORDER BY parts, trace_id
