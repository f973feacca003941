-- The sessions of a run with their verdicts, the gravest first, and (session_id NULL) the golden questions that no
-- session answers.
SELECT
    verdicts.session_id, verdicts.question_id, verdict, reason, start_ns, total_s, cost_usd,
    input_tokens + output_tokens AS tokens, turns, errors, first_input
FROM verdicts LEFT JOIN derived.sessions USING (session_id)
WHERE run_id = $run_id
ORDER BY list_position($gravest_first, verdict) NULLS LAST, verdicts.session_id NULLS FIRST, verdicts.question_id
LIMIT $most
