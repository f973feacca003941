-- One row for each judge, prompt and question that was answered.
CREATE TABLE IF NOT EXISTS verdicts (
    key             TEXT PRIMARY KEY,  -- SHA-256 of judge, prompt version, votes and question
    judge           TEXT NOT NULL,     -- gemini/gemini-3.8-flash
    prompt_version  TEXT NOT NULL,
    question        TEXT NOT NULL,     -- JSON
    passed          INTEGER,           -- 0 or 1; NULL for a rating
    score           REAL,
    reason          TEXT NOT NULL,
    input_tokens    INTEGER,
    output_tokens   INTEGER,
    cost_usd        REAL,
    answered_at     TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP  -- UTC
) WITHOUT ROWID;
