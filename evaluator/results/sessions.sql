-- The sessions with the verdict that each shows, whether more of them arrived since, and the question by which it was graded.
SELECT
    listed.* EXCLUDE (records) REPLACE (coalesce(graded.question_id, listed.question_id) AS question_id),
    graded.verdict,
    coalesce(graded.records <> listed.records, false) AS arrived_since
FROM (SELECT {columns}, records FROM derived.sessions {chosen}) AS listed LEFT JOIN (FROM {grades} WHERE shown) AS graded USING (session_id)
