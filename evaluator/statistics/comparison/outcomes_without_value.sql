-- How many outcomes of each metric have no value although it applies.
SELECT metric, count(*)
FROM scores SEMI JOIN ({chosen}) USING (run_id, session_id)
WHERE outcome NOT IN ('score', 'not_applicable')
GROUP BY metric
