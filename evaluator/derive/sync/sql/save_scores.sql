-- The derived scores of some sessions as rows of `scores`: of each author, turn, name and span the newest.
INSERT INTO scores BY NAME
SELECT
    session_id,
    name AS metric,
    value,
    CASE WHEN lower(label) IN ('pass', 'passed') THEN true WHEN lower(label) IN ('fail', 'failed') THEN false END AS passed,
    'score' AS outcome,
    explanation AS reason,
    CASE WHEN span_id IS NULL THEN '[]' ELSE to_json([span_id])::VARCHAR END AS evidence,
    'trace' AS source,
    author,
    turn,
    label,
    make_timestamp(time_ns // 1000) AS scored_at
FROM derived.recorded_scores SEMI JOIN wanted USING (session_id)
QUALIFY row_number() OVER (PARTITION BY session_id, author, turn, name, span_id ORDER BY time_ns DESC) = 1
