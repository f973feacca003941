-- What is missing, by the reasons of the sessions that are inconclusive because of it.
SELECT reason, count(*) AS sessions, min(session_id) AS example
FROM {run_cells}
WHERE run_id = $run AND verdict = 'inconclusive' AND session_id IS NOT NULL
GROUP BY reason
ORDER BY sessions DESC, reason
LIMIT $limit
