-- A rolling run was graded a moment ago: never before a run that was saved meanwhile, even if the clock was set back.
UPDATE runs SET
    graded_at = greatest(current_timestamp::TIMESTAMP, (SELECT max(graded_at) + INTERVAL 1 microsecond FROM runs)),
    judge_calls = judge_calls + $calls,
    judge_cache_hits = judge_cache_hits + $cache_hits,
    judge_failures = judge_failures + $judge_failures,
    judge_input_tokens = judge_input_tokens + $input_tokens,
    judge_output_tokens = judge_output_tokens + $output_tokens,
    judge_cost_usd = judge_cost_usd + $cost_usd
WHERE run_id = $run_id
RETURNING graded_at
