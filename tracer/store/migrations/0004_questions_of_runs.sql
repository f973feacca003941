-- What a run compared its sessions with, as it was then: the dataset's file may change, or be on another machine.
-- A question that did not change since an earlier run is stored once.
CREATE TABLE IF NOT EXISTS golden_questions (
    digest       VARCHAR NOT NULL,                           -- of the question's canonical JSON text
    question     JSON NOT NULL USING COMPRESSION zstd
);
CREATE TABLE IF NOT EXISTS run_questions (
    run_id       VARCHAR NOT NULL,
    question_id  VARCHAR NOT NULL,
    digest       VARCHAR NOT NULL
);
ALTER TABLE runs ADD COLUMN IF NOT EXISTS thresholds JSON;   -- of the gates by metric, as ">= 0.9"; NULL: not recorded
