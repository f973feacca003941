-- The sessions whose latest verdict is one of {verdicts}. Only later runs can have given another: to look into those is
-- quicker than to find the latest verdict of every session.
WITH ranked AS (SELECT run_id, row_number() OVER (ORDER BY graded_at DESC, run_id) AS age FROM runs)
SELECT wanted.session_id
FROM verdicts AS wanted JOIN ranked USING (run_id)
WHERE wanted.verdict IN ({verdicts})
  AND wanted.session_id IS NOT NULL
  AND NOT EXISTS (
      SELECT 1
      FROM verdicts AS later JOIN ranked AS later_run USING (run_id)
      WHERE later_run.age < (SELECT max(age) FROM ranked)
        AND later.session_id = wanted.session_id
        AND later_run.age < ranked.age
  )
