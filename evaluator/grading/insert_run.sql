INSERT INTO runs (
    run_id, dataset, metrics, thresholds,
    judge, judge_calls, judge_cache_hits, judge_failures, judge_input_tokens, judge_output_tokens, judge_cost_usd
)
VALUES (
    $run_id, $dataset, $metrics, $thresholds,
    $judge, $calls, $cache_hits, $judge_failures, $input_tokens, $output_tokens, $cost_usd
)
