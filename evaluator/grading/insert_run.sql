-- A run is never older than those that were saved before it, even if the clock was set back.
INSERT INTO runs (
    graded_at, run_id, name, tags, dataset, dataset_digest, metrics, thresholds, git_commit, git_dirty, git_branch, prices_version,
    price_overrides, judge, judge_calls, judge_cache_hits, judge_failures, judge_input_tokens, judge_output_tokens, judge_cost_usd,
    metrics_files, without_references, question_condition, require_match, reply_threshold, judge_votes, day, rules
)
VALUES (
    greatest(current_timestamp::TIMESTAMP, (SELECT max(graded_at) + INTERVAL 1 microsecond FROM runs)), $run_id, $name, $tags, $dataset, $dataset_digest, $metrics, $thresholds, $git_commit, $git_dirty, $git_branch, $prices_version,
    $price_overrides, $judge, $calls, $cache_hits, $judge_failures, $input_tokens, $output_tokens, $cost_usd,
    $metrics_files, $without_references, $question_condition, $require_match, $reply_threshold, $judge_votes, $day, $rules
)
