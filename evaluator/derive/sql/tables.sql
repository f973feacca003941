-- What is derived, in typed columns: over the spans' raw JSON the same questions take seconds a million spans.
-- All of it can be dropped and derived again. `batch` numbers the run of derivation that wrote a row: sessions
-- are read back by ranges of it, which skips the row groups outside (zone maps) however many sessions there are.
DROP SCHEMA IF EXISTS derived CASCADE;
CREATE SCHEMA derived;

CREATE TABLE derived.progress (
    rules  INTEGER NOT NULL,  -- the version of the derivation rules that wrote these tables
    seq    BIGINT NOT NULL    -- spans and logs up to this arrival are in them
);

CREATE TABLE derived.traces (
    trace_id    VARCHAR NOT NULL,
    session_id  VARCHAR NOT NULL,
    first_seq   BIGINT NOT NULL,  -- where its spans and logs stand: nothing outside is read
    last_seq    BIGINT NOT NULL,
    -- Where it stands in a conversation that records no id, as digests of what was said; NULL if it has one.
    start_ns    BIGINT,
    history     VARCHAR,   -- what its first model call goes on from, NULL where a conversation may begin
    asked       VARCHAR    -- that call's whole request
);

-- What the model calls of such traces had reached: the history of whoever goes on from there.
CREATE TABLE derived.reached (
    session_id  VARCHAR NOT NULL,
    trace_id    VARCHAR NOT NULL,
    start_ns    BIGINT NOT NULL,
    key         VARCHAR NOT NULL
);

CREATE TABLE derived.sessions (
    batch                BIGINT NOT NULL,
    session_id           VARCHAR NOT NULL,
    session_id_source    VARCHAR NOT NULL,
    question_id          VARCHAR,
    start_ns             BIGINT,
    turns                BIGINT NOT NULL,
    tool_calls           BIGINT NOT NULL,
    agents               VARCHAR,          -- JSON list, NULL: unknown
    handoffs             VARCHAR,          -- JSON list of [from, to], NULL: unknown
    models               VARCHAR,          -- JSON list, NULL: unknown
    llm_calls            BIGINT,
    input_tokens         BIGINT,
    output_tokens        BIGINT,
    cached_input_tokens  BIGINT,
    reasoning_tokens     BIGINT,
    complete             BOOLEAN NOT NULL,
    cost_usd             DOUBLE,
    cost_unknown         VARCHAR,
    total_s              DOUBLE,
    llm_s                DOUBLE,
    tool_s               DOUBLE,
    framework_s          DOUBLE,
    first_response_s     DOUBLE,
    state                VARCHAR,          -- JSON object, NULL: none was recorded
    errors               BIGINT NOT NULL,
    missing_spans        BIGINT NOT NULL,  -- parents that recorded spans name beneath an agent's run
    sampled              BOOLEAN NOT NULL  -- whole traces of it may have been dropped
);

CREATE TABLE derived.turns (
    batch           BIGINT NOT NULL,
    session_id      VARCHAR NOT NULL,
    turn            BIGINT NOT NULL,
    user_input      VARCHAR,
    final_response  VARCHAR,
    start_ns        BIGINT NOT NULL,
    end_ns          BIGINT NOT NULL,
    latency_s       DOUBLE,
    trace_ids       VARCHAR NOT NULL       -- JSON list
);

CREATE TABLE derived.steps (
    batch       BIGINT NOT NULL,
    session_id  VARCHAR NOT NULL,
    position    BIGINT NOT NULL,
    turn        BIGINT,
    kind        VARCHAR NOT NULL,
    name        VARCHAR NOT NULL,
    start_ns    BIGINT NOT NULL,
    trace_id    VARCHAR NOT NULL,
    span_id     VARCHAR
);

CREATE TABLE derived.tool_interactions (
    batch            BIGINT NOT NULL,
    session_id       VARCHAR NOT NULL,
    position         BIGINT NOT NULL,
    turn             BIGINT,
    tool_name        VARCHAR NOT NULL,
    input_arguments  VARCHAR,              -- canonical JSON, equal as text where equal as value
    output           VARCHAR,              -- canonical JSON
    arguments_known  BOOLEAN NOT NULL,
    output_known     BOOLEAN NOT NULL,
    ok               BOOLEAN,
    error            VARCHAR,
    call_id          VARCHAR,
    agent            VARCHAR,
    handoff          BOOLEAN NOT NULL,
    start_ns         BIGINT NOT NULL,
    end_ns           BIGINT NOT NULL,
    latency_s        DOUBLE,
    trace_id         VARCHAR NOT NULL,
    span_id          VARCHAR
);

CREATE TABLE derived.llm_calls (
    batch                BIGINT NOT NULL,
    session_id           VARCHAR NOT NULL,
    position             BIGINT NOT NULL,
    turn                 BIGINT,
    agent                VARCHAR,
    provider             VARCHAR,
    model                VARCHAR,
    input_tokens         BIGINT,
    output_tokens        BIGINT,
    cached_input_tokens  BIGINT,
    reasoning_tokens     BIGINT,
    grounding_chunks     BIGINT,
    code_executions      BIGINT,
    cost_usd             DOUBLE,
    start_ns             BIGINT NOT NULL,
    end_ns               BIGINT NOT NULL,
    latency_s            DOUBLE,
    trace_id             VARCHAR NOT NULL,
    span_id              VARCHAR NOT NULL
);

CREATE TABLE derived.errors (
    batch       BIGINT NOT NULL,
    session_id  VARCHAR NOT NULL,
    "where"     VARCHAR NOT NULL,
    message     VARCHAR,
    trace_id    VARCHAR NOT NULL,
    span_id     VARCHAR
);
