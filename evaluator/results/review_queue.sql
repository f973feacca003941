-- The sessions of which a label teaches the most, with the reason: their verdict `failed` (or broke), its gates are in
-- `disagreement`, a value of it is `near a threshold` (within a tenth), or it is `disputed` by what a person labelled.
-- A share that is met in full is as far from its threshold as it can be.
WITH shown AS (FROM {grades} WHERE shown),
gates AS (
    SELECT
        scores.session_id, scores.passed, scores.rowid AS place,
        metric || coalesce(printf(' %.4g', value), '') || if(scores.passed, ' passed', ' failed') AS words,
        CASE WHEN NOT coalesce(scores.passed AND value = 1 AND threshold = 1 AND higher_is_better, false) THEN abs(value - threshold) / abs(nullif(threshold, 0)) END AS distance
    FROM scores SEMI JOIN shown USING (session_id, run_id) LEFT JOIN run_metrics USING (run_id, metric)
    WHERE scores.passed IS NOT NULL
),
labels AS (
    SELECT session_id, metric, author, passed
    FROM scores
    WHERE run_id IS NULL AND source = 'person' AND evidence = '[]' AND turn IS NULL AND label IN ('pass', 'fail') AND session_id IS NOT NULL
),
judged AS (
    SELECT session_id, metric, passed FROM {latest_scores} WHERE passed IS NOT NULL AND session_id IN (SELECT session_id FROM labels)
    UNION ALL
    SELECT session_id, 'label', verdict = 'passed' FROM shown WHERE verdict IN ('passed', 'failed')
)
SELECT session_id, 'failed' AS reason, NULL::VARCHAR AS reviewer, reason AS details, NULL::DOUBLE AS distance
FROM shown
WHERE verdict IN ('failed', 'broken')
UNION ALL
SELECT session_id, 'disagreement', NULL, string_agg(words, ', ' ORDER BY place), NULL
FROM gates
GROUP BY session_id
HAVING bool_or(passed) AND NOT bool_and(passed)
UNION ALL
SELECT session_id, 'near a threshold', NULL, arg_min(words, (distance, place)), min(distance)
FROM gates
GROUP BY session_id
HAVING min(distance) <= 0.1
UNION ALL
SELECT session_id, 'disputed', author, string_agg(DISTINCT 'labelled ' || metric || if(labels.passed, ' pass', ' fail'), '; '), NULL
FROM labels JOIN judged USING (session_id, metric)
WHERE judged.passed <> labels.passed
GROUP BY session_id, author
