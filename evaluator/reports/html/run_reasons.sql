-- Why sessions failed or broke: the outcomes that decided, each with the sessions that it is the reason of.
WITH deciding AS (
    SELECT scores.metric, scores.reason, cells.verdict, cells.session_id
    FROM {run_cells} AS cells JOIN scores USING (run_id, session_id)
    WHERE run_id = $run
      AND (
          (cells.verdict = 'failed' AND scores.outcome IN ('score', 'bound') AND NOT scores.passed)
          OR (cells.verdict = 'broken' AND scores.outcome IN ('failure', 'judge_failure'))
      )
)
SELECT metric, reason, verdict, count(DISTINCT session_id) AS sessions, min(session_id) AS example
FROM deciding
GROUP BY metric, reason, verdict
UNION ALL
SELECT NULL, reason, verdict, count(*), min(session_id)
FROM {run_cells} ANTI JOIN deciding USING (session_id)
WHERE run_id = $run AND verdict IN ('failed', 'broken') AND session_id IS NOT NULL
GROUP BY reason, verdict
ORDER BY sessions DESC, metric, reason
LIMIT $limit
