SELECT run_id, name, graded_at, dataset, metrics, thresholds, judge, judge_calls, judge_cache_hits, judge_failures, judge_cost_usd
FROM runs
WHERE run_id = $run
