-- The judges that the runs of the chosen sessions asked.
SELECT DISTINCT judge
FROM runs SEMI JOIN ({chosen}) USING (run_id)
WHERE judge IS NOT NULL AND coalesce(judge_calls, 0) + coalesce(judge_cache_hits, 0) > 0
ORDER BY judge
