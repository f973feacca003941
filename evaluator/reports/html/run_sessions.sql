-- The sessions of a run with their verdicts, the gravest first, and (session_id NULL) the golden questions that no
-- session answers.
SELECT
    cells.session_id, cells.question_id, verdict, reason, start_ns, total_s, cost_usd,
    input_tokens + output_tokens AS tokens, turns, errors, first_input
FROM {run_cells} AS cells LEFT JOIN derived.sessions USING (session_id)
WHERE run_id = $run_id
ORDER BY list_position($gravest_first, verdict) NULLS LAST, cells.session_id NULLS FIRST, cells.question_id
LIMIT $most
