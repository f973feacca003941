-- Which of the chosen sessions have some facts, and the span where it is so first.
WITH chosen AS (SELECT unnest($session_ids) AS session_id), facts AS ({facts})
SELECT fact, list(session_id), list(span_id)
FROM (
    SELECT fact, session_id, first(span_id ORDER BY position) AS span_id
    FROM facts SEMI JOIN (SELECT unnest($wanted) AS fact) USING (fact)
    GROUP BY fact, session_id
)
GROUP BY fact
