-- The questions of a run, each with the result of its sessions in this run and in the baseline, the worst change first.
-- A session that answers no question is a row of its own; `key` is what both runs have in common. `change` is the
-- difference in the share that passed, `worst` the largest worsening of a metric with a direction, from 0 to 2, as a
-- share of the larger of both means. The baseline may be no run: its columns are NULL then.
WITH of_runs AS (
    SELECT
        run_id,
        cell AS key,
        any_value(question_id) AS question_id,
        count(session_id) AS sessions,
        count(*) FILTER (verdict = 'passed') AS passed,
        arg_min(verdict, list_position($gravest_first, verdict)) AS verdict,
        arg_min(reason, list_position($gravest_first, verdict)) AS reason,
        arg_min(session_id, (list_position($gravest_first, verdict), session_id)) AS session_id,
        -- beside a session that failed stands one that passed
        arg_max(session_id, (list_position($gravest_first, verdict), session_id)) AS best_session_id
    FROM {run_cells}
    WHERE run_id IN ($run, $base)
    GROUP BY run_id, key
),
mine AS (SELECT * EXCLUDE (run_id, best_session_id) FROM of_runs WHERE run_id = $run),
theirs AS (
    SELECT key, sessions AS base_sessions, passed AS base_passed, verdict AS base_verdict, best_session_id AS base_session_id
    FROM of_runs
    WHERE run_id = $base
),
compared AS MATERIALIZED (
    SELECT
        mine.*,
        base_sessions, base_passed, base_verdict, base_session_id,
        question,
        row_number() OVER () AS number,
        list_position($gravest_first, mine.verdict) AS gravity,
        CASE WHEN $by_change THEN coalesce(base_passed / base_sessions, 0) - coalesce(passed / nullif(sessions, 0), 0) END AS change
    FROM mine
    LEFT JOIN theirs USING (key)
    LEFT JOIN (SELECT question_id, digest FROM run_questions WHERE run_id = $run) AS asked ON asked.question_id = mine.question_id
    LEFT JOIN golden_questions USING (digest)
    LEFT JOIN derived.sessions AS searched ON $text IS NOT NULL AND searched.session_id = mine.session_id
    WHERE ($verdict IS NULL OR mine.verdict = $verdict)
      AND (
          $text IS NULL
          OR contains(lower(concat_ws(' ', mine.key, question ->> '$.user_inputs', first_input, mine.reason)), lower($text))
      )
      AND ($metadata_key IS NULL OR (question -> '$.metadata' ->> $metadata_key) = $metadata_value)
      AND (
          $metric IS NULL
          OR mine.key IN (
              SELECT coalesce(scores.question_id, session_id)
              FROM scores
              WHERE run_id = $run AND metric = $metric AND passed IS DISTINCT FROM true AND outcome <> 'not_applicable'
          )
      )
),
-- Metrics are compared of the rows that may be on the page: those that changed at least as much as its last one.
-- Rows are grouped by numbers, not by keys, and both runs at once: that takes half of the time.
numbered AS (
    SELECT key, number
    FROM compared
    WHERE $only_changed OR change >= coalesce((SELECT change FROM compared ORDER BY change DESC LIMIT 1 OFFSET $skip + $limit - 1), -1)
),
placed AS (
    SELECT run_id, session_id, number
    FROM {run_cells} JOIN numbered ON key = cell
    WHERE run_id IN ($run, $base)
),
measured AS (
    SELECT
        number,
        metric,
        avg(value) FILTER (run_id = $run) AS mean,
        avg(value) FILTER (run_id = $base) AS base_mean
    FROM scores JOIN placed USING (run_id, session_id)
    WHERE $run <> $base AND run_id IN ($run, $base) AND outcome = 'score' AND isfinite(value)
    GROUP BY number, metric
),
changed AS (
    SELECT
        number,
        max(CASE WHEN higher_is_better THEN base_mean - mean ELSE mean - base_mean END / greatest(abs(mean), abs(base_mean)))
            FILTER (higher_is_better IS NOT NULL AND mean <> base_mean) AS worst,
        bool_or(mean <> base_mean) AS differs
    FROM measured LEFT JOIN (FROM run_metrics WHERE run_id = $run) AS known USING (metric)
    GROUP BY number
),
page AS (
    SELECT
        compared.*, CASE WHEN $by_change THEN worst END AS worst,
        count(*) OVER () AS of_all, count(question_id) OVER () AS questions
    FROM compared LEFT JOIN changed USING (number)
    WHERE NOT $only_changed
        OR base_verdict IS DISTINCT FROM verdict
        OR base_passed <> passed
        OR coalesce(differs, false)
    ORDER BY change DESC NULLS LAST, worst DESC NULLS LAST, gravity, key
    LIMIT $limit OFFSET $skip
)
SELECT page.*, question ->> '$.user_inputs[0]' AS words, first_input
FROM page LEFT JOIN derived.sessions USING (session_id)
ORDER BY change DESC NULLS LAST, worst DESC NULLS LAST, gravity, key
