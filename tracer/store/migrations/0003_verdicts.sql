-- The verdict of each run on each session, and (session_id NULL) on each golden question that none answers.
CREATE TABLE IF NOT EXISTS verdicts (
    run_id       VARCHAR NOT NULL,
    session_id   VARCHAR,
    question_id  VARCHAR,
    verdict      VARCHAR NOT NULL,    -- passed, failed, inconclusive, broken or unmatched
    reason       VARCHAR NOT NULL
);
