-- The grading runs, the newest first, each with how many sessions have which verdict.
SELECT
    run_id,
    name,
    graded_at,                                                            -- in UTC
    dataset,
    count(session_id) AS sessions,
    count(session_id) FILTER (verdict = 'passed') AS passed,
    count(session_id) FILTER (verdict = 'failed') AS failed,
    count(session_id) FILTER (verdict = 'inconclusive') AS inconclusive,
    count(session_id) FILTER (verdict = 'broken') AS broken,
    count(session_id) FILTER (verdict = 'unmatched') AS unmatched,
    count(*) FILTER (session_id IS NULL AND question_id IS NOT NULL) AS unanswered_questions,
    any_value(tags) AS tags,
    any_value(day) AS day,                                                -- of a rolling run of `watch`
    any_value(git_commit) AS git_commit,
    any_value(git_dirty) AS git_dirty,
    any_value(git_branch) AS git_branch,
    any_value(dataset_digest) AS dataset_digest,
    any_value(metrics) AS metrics,                                        -- as they were requested
    any_value(judge) AS judge,
    any_value(judge_cost_usd) AS judge_cost_usd,
    any_value(prices_version) AS prices_version
FROM runs LEFT JOIN (SELECT run_id, session_id, question_id, verdict FROM {run_cells}) USING (run_id)
WHERE {chosen}
GROUP BY run_id, name, graded_at, dataset
ORDER BY graded_at DESC, run_id
