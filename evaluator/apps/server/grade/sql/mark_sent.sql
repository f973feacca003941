-- Note that a receiver has accepted scores.
UPDATE sent_scores SET sent_ns = $now FROM accepted
WHERE endpoint = $endpoint AND sent_ns IS NULL
    AND sent_scores.session_id = accepted.session_id AND sent_scores.question_id = accepted.question_id
    AND sent_scores.metric = accepted.metric AND sent_scores.content = accepted.content
