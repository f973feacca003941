-- What a person asks. Times in seconds, tokens in tokens, NULL is unknown.
CREATE OR REPLACE VIEW sessions AS
SELECT
    session_id,
    session_id_source,                         -- 'trace': no conversation id was recorded, the trace stands for one
    question_id,
    make_timestamp(start_ns // 1000) AS started_at,
    turns,
    agents::JSON::VARCHAR[] AS agents,
    handoffs::JSON AS handoffs,
    tool_calls,
    errors,
    llm_calls,
    models::JSON::VARCHAR[] AS models,
    input_tokens,                              -- cached and tool-use-prompt tokens included
    output_tokens,                             -- reasoning included
    cached_input_tokens,
    reasoning_tokens,
    complete AS usage_complete,                -- every call recorded its tokens
    cost_usd,
    cost_unknown,                              -- the models without a known price
    total_s,
    llm_s,
    tool_s,
    framework_s,
    first_response_s,
    missing_spans,                             -- above 0 it is not the whole session that is recorded
    sampled                                    -- it may not be the whole session that is recorded
FROM derived.sessions;

CREATE OR REPLACE VIEW turns AS
SELECT
    session_id, turn, user_input, final_response, latency_s,
    make_timestamp(start_ns // 1000) AS started_at,
    trace_ids::JSON::VARCHAR[] AS trace_ids
FROM derived.turns;

CREATE OR REPLACE VIEW trajectory AS
SELECT session_id, position, turn, kind, name, make_timestamp(start_ns // 1000) AS started_at, trace_id, span_id
FROM derived.steps;

CREATE OR REPLACE VIEW tool_interactions AS
SELECT
    session_id, position, turn, tool_name,
    input_arguments::JSON AS input_arguments,
    output::JSON AS output,
    ok, error, call_id, agent, handoff, latency_s,
    make_timestamp(start_ns // 1000) AS started_at,
    trace_id, span_id
FROM derived.tool_interactions;

CREATE OR REPLACE VIEW llm_calls AS
SELECT
    session_id, position, turn, agent, provider, model,
    input_tokens, output_tokens, cached_input_tokens, reasoning_tokens, cost_usd, latency_s,
    grounding_chunks,                          -- sources that the answer was grounded on
    code_executions,                           -- runs of code in the model's own sandbox
    make_timestamp(start_ns // 1000) AS started_at,
    trace_id, span_id
FROM derived.llm_calls;

CREATE OR REPLACE VIEW state_variables AS
SELECT session_id, entry.key AS name, entry.value AS value
FROM derived.sessions, json_each(state::JSON) AS entry;

CREATE OR REPLACE VIEW errors AS
SELECT session_id, "where", message, trace_id, span_id
FROM derived.errors;
