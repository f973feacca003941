-- What was asked and answered, once for each judge, prompt and question.
create table if not exists verdicts (
    key             varchar primary key,  -- SHA-256 of judge, prompt version, votes and question
    judge           varchar not null,     -- gemini/gemini-3.8-flash
    prompt_version  varchar not null,
    question        json not null,
    passed          boolean,              -- null for a rating
    score           double,
    reason          varchar not null,
    input_tokens    bigint,
    output_tokens   bigint,
    cost_usd        double,
    answered_at     timestamptz not null default now()
);
-- Who is asking right now, so that another process waits for the answer and does not pay for it as well.
create table if not exists claims (
    key            varchar primary key,
    claimed_until  double not null        -- seconds since the epoch: the claim of a process that died ends
);
