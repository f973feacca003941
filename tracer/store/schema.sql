-- All tables of a database. An older one gets those that it lacks; `migrations/` change those that it has.
-- What came in is stored as it came and never rewritten. Everything in the schema `derived` comes from it.
CREATE SEQUENCE IF NOT EXISTS arrival;

CREATE TABLE IF NOT EXISTS spans (
    seq             BIGINT NOT NULL DEFAULT nextval('arrival'),  -- order of arrival: how far derivation has come
    trace_id        VARCHAR NOT NULL,                            -- lower-case hex, as every tool prints it
    span_id         VARCHAR NOT NULL,
    parent_span_id  VARCHAR,
    name            VARCHAR NOT NULL,
    kind            VARCHAR NOT NULL,
    start_ns        BIGINT NOT NULL,                             -- BIGINT and not TIMESTAMP_NS: to the digit in every client
    end_ns          BIGINT NOT NULL,
    status          VARCHAR NOT NULL,
    status_message  VARCHAR,
    attributes      JSON USING COMPRESSION zstd,                 -- a third of the size of the automatic codec, loads twice as fast
    events          JSON USING COMPRESSION zstd,
    links           JSON,
    resource        JSON,                                        -- the same for thousands of rows: the dictionary codec's case
    scope_name      VARCHAR,
    scope_version   VARCHAR,
    trace_state     VARCHAR
    -- No PRIMARY KEY: it costs 9% to 40% of the insert rate; insert_spans.sql leaves out what is here already.
);

CREATE TABLE IF NOT EXISTS logs (
    seq             BIGINT NOT NULL DEFAULT nextval('arrival'),
    trace_id        VARCHAR,
    span_id         VARCHAR,
    time_ns         BIGINT NOT NULL,
    event_name      VARCHAR,
    severity        VARCHAR,
    body            JSON USING COMPRESSION zstd,
    attributes      JSON USING COMPRESSION zstd,
    resource        JSON,
    scope_name      VARCHAR,
    scope_version   VARCHAR
);

-- The traces of the files that were imported last, for `grade --last-import`.
CREATE TABLE IF NOT EXISTS last_import (trace_id VARCHAR NOT NULL);

-- The results of grading are kept when sessions are derived again. One row a run; NULL where it is not recorded.
CREATE TABLE IF NOT EXISTS runs (
    run_id               VARCHAR NOT NULL,
    graded_at            TIMESTAMP NOT NULL DEFAULT current_timestamp::TIMESTAMP,
    dataset              VARCHAR NOT NULL,
    metrics              VARCHAR[] NOT NULL,  -- as they were asked for
    judge                VARCHAR,             -- provider and model
    judge_calls          BIGINT,              -- also of calls that failed
    judge_cache_hits     BIGINT,              -- answers that needed no call
    judge_failures       BIGINT,              -- outcomes that are missing because it failed
    judge_input_tokens   BIGINT,              -- NULL: unknown
    judge_output_tokens  BIGINT,
    judge_cost_usd       DOUBLE,              -- NULL: unknown
    thresholds           JSON,                -- of the gates by metric, as ">= 0.9"
    name                 VARCHAR,             -- of `grade --run`; NULL: none
    tags                 JSON,                -- of `grade --tag`, an object of texts
    git_commit           VARCHAR,             -- NULL: not graded in a git repository
    git_dirty            BOOLEAN,             -- whether tracked files differed from the commit
    git_branch           VARCHAR,             -- NULL: no branch was checked out
    dataset_digest       VARCHAR,             -- SHA-256 of the questions' canonical JSON
    prices_version       VARCHAR,             -- of the library genai-prices
    price_overrides      VARCHAR[],           -- the models that the project's settings priced; NULL also: none
    metrics_files        VARCHAR[],           -- of --metrics-file
    without_references   VARCHAR[],           -- that were not gates, of --no-reference
    question_condition   VARCHAR,             -- of --where, with a dataset; NULL also: none
    require_match        BOOLEAN,             -- of --require-match
    reply_threshold      DOUBLE,              -- of --judge-threshold; NULL also: the default
    judge_votes          BIGINT,              -- of --judge-votes
    day                  DATE,                -- of a rolling run of `watch`, UTC; NULL: any other run
    rules                VARCHAR              -- the version of the rules that judged it; NULL: an earlier one
);

-- The metrics of a run, as they were then.
CREATE TABLE IF NOT EXISTS run_metrics (
    run_id            VARCHAR NOT NULL,
    metric            VARCHAR NOT NULL,
    version           VARCHAR,            -- "spangrade 0.2.0" or of what brings it; the SHA-256 of a file of one's own
    threshold         DOUBLE,             -- NULL: not a gate
    higher_is_better  BOOLEAN,            -- NULL: neither is
    unit              VARCHAR NOT NULL,
    lowest            DOUBLE NOT NULL,    -- possible value
    highest           DOUBLE NOT NULL
);

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

-- The verdict of each run on each session, and (session_id NULL) on each golden question that none answers.
CREATE TABLE IF NOT EXISTS verdicts (
    run_id       VARCHAR NOT NULL,
    session_id   VARCHAR,
    question_id  VARCHAR,
    verdict      VARCHAR NOT NULL,    -- passed, failed, inconclusive, broken or unmatched
    reason       VARCHAR NOT NULL,
    place        TINYINT,             -- 1: shown; 2: the latest of the other kind (golden, policy); NULL: older
    records      BIGINT,              -- how many spans and logs the session had then; NULL: not recorded
    given_at     TIMESTAMP            -- UTC, in a rolling run of `watch`; NULL: see runs.graded_at
);

-- One row a run, session and metric. Scores that no run of `grade` made have no run: they are from people, incoming
-- traces and programs; their note or explanation is the `reason`, the spans that they are about are the `evidence`.
CREATE TABLE IF NOT EXISTS scores (
    run_id       VARCHAR,
    session_id   VARCHAR,                -- NULL: no session answered the question
    question_id  VARCHAR,
    metric       VARCHAR NOT NULL,
    value        DOUBLE,
    passed       BOOLEAN,                -- NULL: no threshold judged the value
    outcome      VARCHAR NOT NULL,       -- score, bound, inconclusive, not_applicable, failure or judge_failure
    reason       VARCHAR,
    -- JSON list: "SPAN" or {"span": …, "path": …}; where something was due {"after": SPAN, "before": SPAN, "path": …}
    evidence     VARCHAR,
    source       VARCHAR DEFAULT 'run',  -- run, person, trace or program
    author       VARCHAR,                -- a user, or what evaluated the trace
    turn         BIGINT,                 -- NULL: the whole session
    label        VARCHAR,                -- the value in words, such as pass
    scored_at    TIMESTAMP               -- UTC; NULL in most runs: see runs.graded_at
);
