-- How many scores of each metric are in each of $bars equal parts of its range, which is 0 to 1 for shares.
WITH ranges AS (
    SELECT metric, least(min(value), 0) AS low, greatest(max(value), CASE WHEN max(value) <= 1 THEN 1 ELSE 0 END) AS high
    FROM scores
    WHERE run_id = $run AND session_id IS NOT NULL AND outcome = 'score' AND isfinite(value)
    GROUP BY metric
)
SELECT
    metric, low, high,
    CASE WHEN high = low THEN 0
        ELSE least(floor((value - low) / (high - low) * $bars), $bars - 1)::INTEGER END AS bar,
    count(*) AS number
FROM scores JOIN ranges USING (metric)
WHERE run_id = $run AND session_id IS NOT NULL AND outcome = 'score' AND isfinite(value)
GROUP BY ALL
ORDER BY metric, bar
