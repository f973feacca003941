"""A database of many sessions, whose derived tables SQL fills: without spans, in seconds."""

from __future__ import annotations

from pathlib import Path

from made_once import made_once

from spangrade.evaluator.derive.schema import SESSIONS
from spangrade.evaluator.derive.sync.update import forget
from spangrade.evaluator.results.views import place_verdicts
from spangrade.tracer.store import Store

_TOOL_NAME = (
    "['look_up_order', 'refund', 'send_mail', 'search', 'escalate'][(hash(i, position) % 5 + 1)::BIGINT]"
)
_USER_INPUT = """
    'Please look at my order ' || md5((i * 2 + turn)::VARCHAR) || ': it has not arrived and I have waited '
        || 'for ' || (hash(i, turn) % 30)::VARCHAR || ' days. Can you refund it?'
"""
# Mixed so that the columns do not go together: neither with the number of the session nor with each other.
_SESSIONS = f"""
INSERT INTO derived.sessions BY NAME
SELECT
    i // 2000 AS batch,
    'session-' || md5(i::VARCHAR) AS session_id,
    'conversation' AS session_id_source,
    'production' AS origin,
    1767225600000000000 + (i * 7919 % $n) * (7776000000000000 // $n) AS start_ns,  -- 90 days
    2 AS turns,
    ['["router","billing"]', '["router","refunds"]', '["router"]', NULL][(hash(i) % 4 + 1)::BIGINT] AS agents,
    3 AS tool_interactions,
    4 AS llm_calls,
    (hash(i, 1) % 9000)::BIGINT + 100 AS input_tokens,
    (hash(i, 2) % 900)::BIGINT + 10 AS output_tokens,
    true AS complete,
    ['["gemini-2.5-flash"]', '["claude-sonnet-4-5"]', '["gpt-5"]'][(hash(i, 3) % 3 + 1)::BIGINT] AS models,
    ['["greet@3"]', '["greet@3","ask@1"]', NULL][(hash(i, 8) % 3 + 1)::BIGINT] AS prompts,
    nullif((hash(i, 4) % 100000)::DOUBLE / 1e6, 0) AS cost_usd,
    nullif((hash(i, 5) % 600)::DOUBLE / 10, 0) AS total_s,
    (hash(i, 6) % 20 = 0)::BIGINT AS errors,
    false AS sampled,
    '1.' || (hash(i, 7) % 5)::VARCHAR AS agent_version,
    to_json(list_distinct(list_transform(range(1, 4), lambda position: {_TOOL_NAME})))::VARCHAR AS tools,
    {_USER_INPUT} AS first_input,
    $zeros
FROM range($n) AS numbers(i), (SELECT 1::BIGINT AS turn)
"""
_TURNS = f"""
INSERT INTO derived.turns BY NAME
SELECT
    i // 2000 AS batch,
    'session-' || md5(i::VARCHAR) AS session_id,
    turn,
    {_USER_INPUT} AS user_input,
    'I am sorry to hear that. Your order was sent on the ' || (hash(i, turn, 1) % 28 + 1)::VARCHAR
        || 'th and the carrier says that it will arrive tomorrow; case ' || md5((i + turn)::VARCHAR)
        AS final_response,
    1.5 AS latency_s,
    0 AS start_ns,
    0 AS end_ns,
    '[]' AS trace_ids,
    false AS failed,
    false AS driven,
    '[]' AS calls_outside
FROM range($n) AS numbers(i), range(1, 3) AS turns(turn)
"""
_TOOLS = f"""
INSERT INTO derived.tool_interactions BY NAME
SELECT
    i // 2000 AS batch,
    'session-' || md5(i::VARCHAR) AS session_id,
    position,
    1 AS turn,
    {_TOOL_NAME} AS tool_name,
    '{{"order_id":"' || md5((i * 2 + 1)::VARCHAR) || '","reason":"late by '
        || (hash(i, position, 2) % 30)::VARCHAR || ' days"}}' AS input_arguments,
    '{{"carrier":"post","status":"ok","tracking":"' || md5((i * 4 + position)::VARCHAR) || '","weight_g":'
        || (hash(i, position, 3) % 5000)::VARCHAR || '}}' AS output,
    true AS arguments_known,
    true AS output_known,
    false AS arguments_removed,
    false AS provider,
    hash(i, position, 1) % 40 > 0 AS ok,
    'router' AS agent,
    false AS handoff,
    0.2 AS latency_s,
    0 AS start_ns,
    0 AS end_ns,
    md5('trace ' || i) AS trace_id,
    substr(md5('span ' || i || ' ' || position), 1, 16) AS span_id,
    'call_' || md5((i * 4 + position)::VARCHAR) AS call_id
FROM range($n) AS numbers(i), range(1, 4) AS positions(position)
"""
# One call of a model has all that the session used.
_MODELS = """
INSERT INTO derived.llm_calls BY NAME
SELECT batch, session_id, 0 AS position, 1 AS turn, 'router' AS agent, models::JSON->>0 AS model,
    input_tokens, output_tokens,
    cost_usd, total_s AS latency_s, 0 AS start_ns, 0 AS end_ns, '' AS trace_id, 'model' AS span_id,
    false AS unanswered,
    false AS cost_estimated, false AS cost_configured, false AS doubtful_tokens
FROM derived.sessions
"""
_ERRORS = """
INSERT INTO derived.errors BY NAME
SELECT batch, session_id, 'tool refund' AS where, 'no such order ' || session_id AS message, '' AS trace_id
FROM derived.sessions
WHERE errors > 0
"""
_TRACES = """
INSERT INTO derived.traces BY NAME
SELECT
    md5('trace ' || i) AS trace_id,
    'session-' || md5(i::VARCHAR) AS session_id,
    i AS first_seq,
    i AS last_seq,
    0 AS records
FROM range($n) AS numbers(i)
"""
# Two runs: one of all sessions, and a later one of every tenth.
_RUNS = """
INSERT INTO runs (run_id, graded_at, dataset, metrics, thresholds)
SELECT run_id, graded_at, 'golden.json', ['tools:recall>=0.9'], '{"tools:recall":">= 0.9"}'
FROM (VALUES
    ('run-1', TIMESTAMP '2026-03-01 00:00:00'), ('run-2', TIMESTAMP '2026-03-02 00:00:00')
) AS graded(run_id, graded_at)
"""
_VERDICTS = """
INSERT INTO verdicts BY NAME
SELECT run_id, session_id, 'q' || (hash(session_id) % 50)::VARCHAR AS question_id, verdict,
    CASE verdict
        WHEN 'failed' THEN 'tools:recall: 0.5, expected >= 0.9: 1 of 2 calls'
        WHEN 'inconclusive' THEN 'state_management_fidelity: no state is recorded; set_state records it'
        ELSE ''
    END AS reason
FROM (
    SELECT run_id, session_id, CASE hash(session_id, run_id) % 10
        WHEN 0 THEN 'failed' WHEN 1 THEN 'inconclusive' ELSE 'passed' END AS verdict
    FROM derived.sessions, (VALUES ('run-1', 1), ('run-2', 10)) AS graded(run_id, every)
    WHERE hash(session_id) % every = 0
)
"""
_SCORES = """
INSERT INTO scores BY NAME
SELECT verdicts.run_id, session_id, verdicts.question_id, metric,
    CASE metric WHEN 'cost' THEN cost_usd WHEN 'latency_metrics' THEN total_s
        ELSE CASE verdict WHEN 'failed' THEN 0.5 ELSE 1 END END AS value,
    CASE metric WHEN 'tools:recall' THEN verdict <> 'failed' END AS passed,
    CASE WHEN metric = 'cost' AND cost_usd IS NULL THEN 'inconclusive' ELSE 'score' END AS outcome,
    '' AS reason,
    '[]' AS evidence
FROM verdicts JOIN derived.sessions USING (session_id),
    (VALUES ('tools:recall'), ('cost'), ('latency_metrics')) AS metrics(metric)
"""
# Two runs of one dataset for the grid: a question for each session, 20 metrics. A tenth of the sessions
# fails, another tenth in each run.
_LARGE_RUNS = (
    """
    INSERT INTO runs (run_id, graded_at, dataset, metrics, thresholds)
    SELECT 'large-' || run, TIMESTAMP '2026-02-01' + to_days(run::INTEGER), 'large.json', ['metric-0>=0.9'],
        '{"metric-0":">= 0.9"}'
    FROM range(1, 3) AS runs(run)
    """,
    """
    INSERT INTO verdicts BY NAME
    SELECT 'large-' || run AS run_id, session_id, 'question ' || session_id AS question_id, verdict,
        CASE verdict WHEN 'failed' THEN 'metric-0: 0.5, expected >= 0.9' ELSE '' END AS reason
    FROM (
        SELECT run, session_id,
            CASE hash(session_id, run) % 10 WHEN 0 THEN 'failed' ELSE 'passed' END AS verdict
        FROM (SELECT session_id FROM derived.sessions ORDER BY session_id LIMIT $sessions),
            range(1, 3) AS runs(run)
    )
    """,
    """
    INSERT INTO scores BY NAME
    SELECT run_id, session_id, 'metric-' || number AS metric, question_id,
        CASE WHEN number > 0 THEN hash(session_id, run_id, number) % 100 / 100
            WHEN verdict = 'failed' THEN 0.5 ELSE 1 END AS value,
        CASE WHEN number = 0 THEN verdict = 'passed' END AS passed,
        'score' AS outcome, '' AS reason, '[]' AS evidence
    FROM verdicts, range(20) AS metrics(number)
    WHERE run_id IN ('large-1', 'large-2')
    """,
    """
    INSERT INTO run_metrics BY NAME
    SELECT DISTINCT run_id, metric, true AS higher_is_better, '' AS unit, 0 AS lowest, 1 AS highest
    FROM scores WHERE run_id IN ('large-1', 'large-2')
    """,
)


def _sessions() -> str:
    """Return the statement that fills the sessions: counts that it does not name are 0."""
    zeros = [
        f"0 AS {column.name}"
        for column in SESSIONS.columns
        if not column.nullable and f" AS {column.name}" not in _SESSIONS
    ]
    return _SESSIONS.replace("$zeros", ", ".join(zeros))


def two_hundred() -> Path:
    """Return the database of 200 sessions, with two runs: made once, to be opened read-only or copied."""
    return made_once("200-sessions", lambda db: write_sessions(db, 200))


def write_sessions(db: Path, number: int) -> None:
    """Fill a new database with sessions, their turns, calls and errors, and two runs."""
    with Store.open(db) as store:
        forget(store)
        with store.transaction():
            for statement in (_sessions(), _TURNS, _TOOLS, _TRACES):
                store.query(statement, {"n": number})
            for statement in (_ERRORS, _MODELS, _RUNS, _VERDICTS, _SCORES):
                store.query(statement)
            place_verdicts(store, ["run-1", "run-2"])


def write_large_runs(db: Path, sessions: int) -> None:
    """Add the runs `large-1` and `large-2` to a database, each of a number of its sessions."""
    with Store.open(db) as store, store.transaction():
        for statement in _LARGE_RUNS:
            store.query(statement, {"sessions": sessions} if "$sessions" in statement else None)
        place_verdicts(store, ["large-1", "large-2"])
