"""Rules of derivation that one recording of a framework shows, or a few spans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from made_once import new_store
from paths import FIXTURES
from recordings import dotted, observed, sessions

from spangrade.converters.spans.observation import ToolUse
from spangrade.evaluator.derive import load, update
from spangrade.evaluator.derive.tool_calls import ok_and_error
from spangrade.evaluator.metrics import Inconclusive, load_metrics
from spangrade.evaluator.session import Session
from spangrade.tracer.files import read
from spangrade.tracer.span import Problem, Span

RULES = FIXTURES / "rules"


def recorded(name: str, tmp_path: Path) -> Session:
    """Return the session of a recording."""
    records = [r for r in read(RULES / f"{name}.otlp.jsonl") if not isinstance(r, Problem)]
    (session,) = sessions(records, tmp_path / "s.duckdb")
    return session


def span(
    number: int, parent: int | None, scope: str = "lib", end: int | None = None, **attributes: Any
) -> Span:
    return Span(
        "a" * 32,
        f"{number:016x}",
        None if parent is None else f"{parent:016x}",
        "step",
        "INTERNAL",
        number * 10,
        end or (number * 10 + 9 if parent else 1_000),
        attributes=dotted(**attributes),
        scope_name=scope,
    )


def session_of(tmp_path: Path, *spans: Span) -> Session:
    (session,) = sessions(spans, tmp_path / "s.duckdb")
    return session


AGENT = {"gen_ai__operation__name": "invoke_agent", "gen_ai__agent__name": "shop"}
CHAT = {"gen_ai__operation__name": "chat", "gen_ai__request__model": "gpt-4o"}
CHAT |= {"gen_ai__usage__input_tokens": 10, "gen_ai__usage__output_tokens": 2}
TOOL = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "refund"}


def test_a_call_that_waited_for_approval_is_one_call_with_its_last_outcome(tmp_path: Path) -> None:
    session = recorded("adk_confirmation", tmp_path)
    assert [(c.input_arguments, c.output, c.ok, c.approval, c.error) for c in session.tool_interactions] == [
        ({"order": "A1"}, {"status": "refunded", "order": "A1"}, True, "approved", None),
        ({"order": "A2"}, {"error": "This tool call is rejected."}, None, "rejected", None),
    ]
    assert [step.name for step in session.trajectory] == ["shop", "refund", "refund"]
    assert session.errors == ()
    outcome = load_metrics()["tool_success_rate"](session)
    assert outcome.value == 1.0  # of the one that ran


def test_a_call_that_still_waits_neither_succeeded_nor_failed(tmp_path: Path) -> None:
    asked = json.dumps({"error": "This tool call requires confirmation, please approve or reject."})
    session = session_of(
        tmp_path,
        span(1, None, **AGENT),
        span(2, 1, **TOOL, gen_ai__tool__call__id="c1", gen_ai__tool__call__result=asked),
    )
    (call,) = session.tool_interactions
    assert (call.ok, call.approval, call.ran, session.errors) == (None, "asked", False, ())
    assert isinstance(load_metrics()["tool_success_rate"](session), Inconclusive)


@pytest.mark.parametrize(
    ("results", "requests", "calls"),
    [
        (('{"error":"busy"}', '"done"'), 1, [True]),
        (('{"error":"busy"}', '"done"'), 2, [False, True]),  # some servers give the same few ids again
        (('"done"', '"done"'), 1, [True, True]),
    ],
)
def test_an_attempt_that_failed_and_is_repeated_under_its_id_is_one_call(
    results: tuple[str, str], requests: int, calls: list[bool], tmp_path: Path
) -> None:
    request = '[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"refund","arguments":{}}]}]'
    models = [span(n, 1, **CHAT, gen_ai__output__messages=request) for n in range(2, 2 + requests)]
    tools = [
        span(
            10 + n,
            1,
            **TOOL,
            gen_ai__tool__call__id="c1",
            gen_ai__tool__call__arguments="{}",
            gen_ai__tool__call__result=result,
        )._replace(status="ERROR" if "error" in result else "UNSET")
        for n, result in enumerate(results)
    ]
    session = session_of(tmp_path, span(1, None, **AGENT), *models, *tools)
    assert [call.ok for call in session.tool_interactions] == calls


@pytest.mark.parametrize("raised", ["exception", "status", "error type", "no mark"])
@pytest.mark.parametrize("has_id", [True, False])
def test_a_call_that_was_interrupted_for_a_person_and_resumed_is_one_call(
    raised: str, has_id: bool, tmp_path: Path
) -> None:
    called = {**TOOL, "gen_ai__tool__call__arguments": "{}"}
    known = called | {"gen_ai__tool__call__id": "c1"}
    earlier = span(2, 1, **(known if has_id or raised == "no mark" else called))
    if raised == "exception":
        marks = {"exception.type": "GraphInterrupt", "exception.message": "(Interrupt(value='Send it?'),)"}
        earlier = earlier._replace(
            status="ERROR", events=[{"name": "exception", "time_ns": 2_500, "attributes": marks}]
        )
    elif raised == "status":
        earlier = earlier._replace(status="ERROR", status_message="(Interrupt(value='Send it?', id='9f'),)")
    elif raised == "error type":
        earlier = earlier._replace(attributes={**earlier.attributes, "error.type": "ApprovalRequired"})
    later = span(10, 1, **known, gen_ai__tool__call__result='"sent"')
    for number, (spans, expected) in enumerate(
        (
            ((earlier, later), [(True, None, "sent")]),
            ((earlier,), [(None, None if raised == "no mark" else "asked", None)]),
        )
    ):
        (tmp_path / str(number)).mkdir()
        session = session_of(tmp_path / str(number), span(1, None, **AGENT), *spans)
        found = [(call.ok, call.approval, call.output) for call in session.tool_interactions]
        assert (found, session.errors) == (expected, ())


def test_usage_is_incomplete_where_a_tool_ran_that_no_recorded_model_call_requested(tmp_path: Path) -> None:
    answer = '[{"role":"assistant","parts":[{"type":"text","content":"Done."}]}]'
    spans = [span(1, None, **AGENT), span(5, 1, **CHAT, gen_ai__output__messages=answer)]
    requested = span(3, 1, **TOOL, gen_ai__tool__call__id="c1", gen_ai__tool__call__result='"ok"')
    by_itself = span(3, 1, **TOOL, gen_ai__tool__call__result='"ok"')
    for number, (tool, complete) in enumerate(((requested, False), (by_itself, True))):
        (tmp_path / str(number)).mkdir()
        session = session_of(tmp_path / str(number), *spans, tool)
        assert (session.usage.input_tokens, session.usage.complete) == (10, complete)


def test_usage_is_incomplete_where_a_run_counts_more_tokens_than_its_model_calls(tmp_path: Path) -> None:
    session = recorded("voltagent", tmp_path)
    assert (session.session_id, session.agents) == ("conv-1", ("shop",))
    assert [(turn.user_input, turn.final_response) for turn in session.turns] == [
        ("What is in my cart?", "Your cart has 2 items, total $129.90."),
        ("Thanks, bye.", "You are welcome, C-1001."),
    ]
    assert [(c.tool_name, c.input_arguments, c.ok) for c in session.tool_interactions] == [
        ("get_cart", {"customer_id": "C-1001"}, True)
    ]
    assert session.usage.complete is False  # 140 of the 260 tokens of the first turn are recorded of calls


def test_a_model_call_stays_one_where_traceloop_calls_it_a_task(tmp_path: Path) -> None:
    records = [r for r in read(RULES / "llamaindex_traceloop.otlp.jsonl") if not isinstance(r, Problem)]
    found = sorted(sessions(records, tmp_path / "s.duckdb"), key=lambda session: session.start_ns or 0)
    assert [(t.user_input, t.final_response) for session in found for t in session.turns] == [
        ("What is in my cart?", "Your cart has 2 items, total $129.90."),
        ("Thanks, bye.", "You are welcome, C-1001."),
    ]
    tokens = [(call.model, call.input_tokens, call.output_tokens) for s in found for call in s.llm_calls]
    assert tokens == [("gpt-4o-mini", 120, 12), ("gpt-4o-mini", 140, 12), ("gpt-4o-mini", 120, 12)]


@pytest.mark.parametrize(
    ("result", "ok"),
    [
        ({"success": False, "message": "no stock"}, False),
        ({"ok": False}, False),
        ({"status": "error"}, False),
        ({"is_error": True}, False),
        ({"success": True}, True),
        ({"data": {"success": False}}, True),
        ("the last error was fixed, status: failed before", True),
        ("Reply(status='error', text='no')", None),
        ("{'status': 'error', 'at': datetime(2026, 1, 1)}", None),
        ("{'status': 'approved'}", True),
        ("{'status': 'error'}", False),
    ],
)
def test_a_failure_in_a_result_is_a_status_at_its_top_and_never_words(result: Any, ok: bool | None) -> None:
    tool = observed(dotted(**TOOL, gen_ai__tool__call__result=json.dumps(result))).observation
    assert isinstance(tool, ToolUse)
    assert ok_and_error(tool, result)[0] is ok


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (
            {"order": "A1", "tool_context": "<google.adk.agents.context.Context object at 0x7f1>"},
            {"order": "A1"},
        ),
        ({"order": "A1", "ctx": "RunContext(deps=None)"}, {"order": "A1"}),
        ({"order": "A1", "context": "of a book"}, {"order": "A1", "context": "of a book"}),
    ],
)
def test_what_a_framework_adds_to_arguments_is_left_out(arguments: dict[str, Any], kept: Any) -> None:
    read_back = observed(dotted(**TOOL, gen_ai__tool__call__arguments=json.dumps(arguments)))
    assert json.loads(read_back.arguments or "") == kept


def test_a_tool_that_is_decorated_inside_a_framework_counts_once(tmp_path: Path) -> None:
    context = "<google.adk.agents.context.Context object at 0x7f1>"
    outer = {**TOOL, "gen_ai__tool__call__arguments": '{"order":"A1"}'}
    inner = {**TOOL, "gen_ai__tool__call__arguments": json.dumps({"order": "A1", "tool_context": context})}
    session = session_of(
        tmp_path,
        span(1, None, **AGENT),
        span(2, 1, "adk", 90, **outer),
        span(3, 2, "spangrade.tracer", 80, **inner, gen_ai__tool__call__result='"ok"'),
    )
    assert [(c.input_arguments, c.output) for c in session.tool_interactions] == [({"order": "A1"}, "ok")]


@pytest.mark.parametrize(
    ("scopes", "end", "calls"),
    [(("one", "other"), 80, 1), (("one", "one"), 80, 2), (("one", "other"), 33, 2)],
)
def test_one_model_call_of_two_instrumentations_that_overlap_counts_once(
    scopes: tuple[str, str], end: int, calls: int, tmp_path: Path
) -> None:
    first, second = scopes
    session = session_of(
        tmp_path,
        span(1, None, **AGENT),
        span(2, 1, first, end - 2, **CHAT),
        span(3, 1, second, end + 40, **CHAT),
    )
    assert len(session.llm_calls) == calls


def test_show_why_lists_what_changed_a_span_and_why(tmp_path: Path, spangrade: Spangrade) -> None:
    db = str(tmp_path / "s.duckdb")
    spangrade("import", RULES / "adk_confirmation.otlp.jsonl", "--db", db)
    listed = json.loads("\n".join(spangrade("show", "conv-1", "--db", db, "--why", "--format", "json").out))
    tools = [one for one in listed if one["span"] == "execute_tool refund"]
    assert [(one["read_as"], one["counts_as"], one["why"]) for one in tools] == [
        ("tool", "no step", "the call was taken up again later, under the same id"),
        ("tool", "tool", "the call was taken up again later, under the same id (approved)"),
        ("tool", "no step", "the call was taken up again later, under the same id"),
        ("tool", "tool", "the call was taken up again later, under the same id (approved)"),
    ]
    assert {one["dialect"] for one in listed} == {"adk"}
    assert tools[0]["passes"] == [
        {
            "pass": "attempts",
            "reason": "the call was taken up again later, under the same id",
            "changed": ["kind"],
        }
    ]
    table = spangrade("show", "conv-1", "--db", db, "--why")
    assert table.code == 0
    assert any("taken up again later" in line for line in table.out)


@pytest.mark.parametrize(
    ("message", "reply"),
    [
        ({"role": "assistant", "parts": []}, ""),
        ({"role": "assistant", "content": ""}, ""),
        ({"role": "assistant", "parts": [], "finish_reason": "tool_call"}, None),
        ({"role": "assistant"}, None),
        ({"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}, None),
    ],
)
@pytest.mark.short_form("message", 2)
def test_a_message_that_is_recorded_as_empty_is_an_empty_reply(
    message: dict[str, Any], reply: str | None, tmp_path: Path
) -> None:
    call = {**CHAT, "gen_ai__output__messages": json.dumps([message])}
    (turn,) = session_of(tmp_path, span(1, None, **AGENT), span(2, 1, **call)).turns
    assert turn.final_response == reply


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (CHAT, "gen_ai__usage__input_tokens"),
        (CHAT, "gen_ai__usage__cache_read__input_tokens"),
        (
            {"openinference__span__kind": "LLM", "llm__model_name": "gpt-4o"},
            "llm__token_count__prompt",
        ),
        ({"llm__request__type": "chat", "gen_ai__request__model": "gpt-4o"}, "llm__usage__prompt_tokens"),
        ({"acme__span__type": "llm", "acme__model": "gpt-4o"}, "acme__promptTokens"),
    ],
)
@pytest.mark.short_form("call", 2)
def test_a_count_that_is_negative_is_unreadable_and_the_session_says_so(
    call: dict[str, Any], name: str, tmp_path: Path
) -> None:
    session = session_of(tmp_path, span(1, None, **AGENT), span(2, 1, **{**call, name: -3}))
    attribute = name.replace("__", ".")
    assert [one.error for one in session.unreadable_spans] == [f"ValueError: {attribute} is -3"]
    known = 10 if "cache" in name else None
    assert (session.usage.input_tokens, session.usage.cached_input_tokens) == (known, None)


TEMPLATE = "Current state: {}\nCurrent message: Any soil?"


@pytest.mark.parametrize(("given", "user_input"), [("Any soil?", "Any soil?"), ("Any seeds?", TEMPLATE)])
def test_the_text_that_a_run_was_given_is_the_users_not_the_template_around_it(
    given: str, user_input: str, tmp_path: Path
) -> None:
    messages = [{"role": "user", "parts": [{"type": "text", "content": TEMPLATE}]}]
    run = {"openinference__span__kind": "AGENT", "agent__name": "shop", "input__value": given}
    run |= {**AGENT, "gen_ai__input__messages": json.dumps(messages)}
    session = session_of(tmp_path, span(1, None, **run), span(2, 1, **CHAT))
    assert session.turns[0].user_input == user_input


def test_the_outermost_run_that_an_agent_is_declared_on_is_its_run(tmp_path: Path) -> None:
    chain = {"openinference__span__kind": "CHAIN", "metadata": '{"lc_agent_name": "shop"}'}
    renamed = [span(1, None, **chain)._replace(name="turn 1"), span(2, 1, **chain)._replace(name="model")]
    session = session_of(tmp_path, *renamed, span(3, 2, **CHAT))
    assert (session.agents, [step.name for step in session.trajectory]) == (("shop",), ["shop"])
    (tmp_path / "named").mkdir()
    named = [span(1, None, **chain)._replace(name="turn 1"), span(2, 1, **chain)._replace(name="shop")]
    session = session_of(tmp_path / "named", *named, span(3, 2, **CHAT))
    assert [(step.name, step.span_id) for step in session.trajectory] == [("shop", f"{2:016x}")]


@pytest.mark.parametrize(
    "node",
    [
        {"openinference__span__kind": "CHAIN", "graph__node__id": "planner"},
        {"openinference__span__kind": "CHAIN", "metadata": '{"langgraph_node": "planner"}'},
        {"traceloop__span__kind": "task", "traceloop__entity__name": "planner"},
        {"langsmith__span__kind": "chain", "langsmith__metadata__langgraph_node": "planner"},
        {"acme__span__type": "chain", "acme__input": "plan", "acme__output": "1. search"},
        {"gen_ai__operation__name": "plan", "gen_ai__agent__name": "shop"},
    ],
)
@pytest.mark.short_form("node", 2)
def test_a_node_or_a_planner_that_nothing_declares_an_agent_is_not_one(
    node: dict[str, Any], tmp_path: Path
) -> None:
    inner = span(2, 1, **node)._replace(name="planner")
    session = session_of(tmp_path, span(1, None, **AGENT), inner, span(3, 2, **CHAT))
    assert (session.agents, [step.name for step in session.trajectory]) == (("shop",), ["shop"])


@pytest.mark.parametrize(
    "attributes",
    [
        {"openinference__span__kind": "AGENT", "input__value": "Any soil?", "output__value": "Timeout: slow"},
        {
            "traceloop__span__kind": "agent",
            "traceloop__entity__input": '{"inputs": {"messages": [["user", "Any soil?"]]}}',
            "traceloop__entity__output": '{"outputs": {"output": "Timeout: slow"}}',
        },
        {
            "langsmith__span__kind": "chain",
            "gen_ai__prompt": '{"messages": [{"role": "user", "content": "Any soil?"}]}',
        },
        {"acme__span__type": "agent", "acme__input": "Any soil?", "acme__output": "Timeout: slow"},
    ],
)
def test_a_failed_run_keeps_its_users_text_and_its_error_is_not_a_reply(
    attributes: dict[str, Any], tmp_path: Path
) -> None:
    error = {"exception.type": "Timeout", "exception.message": "slow"}
    failed = span(1, None, **attributes, gen_ai__agent__name="shop")._replace(
        status="ERROR",
        status_message="Timeout: slow",
        events=[{"name": "exception", "time_ns": 20, "attributes": error}],
    )
    broken = span(2, 1, **{k: v for k, v in CHAT.items() if "usage" not in k})._replace(status="ERROR")
    (turn,) = session_of(tmp_path, failed, broken).turns
    assert (turn.user_input, turn.final_response, turn.failed) == ("Any soil?", None, True)


@pytest.mark.parametrize("name", ["instructions", "expected_output", "analysis_prompt"])
def test_what_a_framework_calls_instructions_is_not_the_users_text(name: str, tmp_path: Path) -> None:
    run = {"openinference__span__kind": "AGENT", "agent__name": "shop"}
    given = json.dumps({name: "Answer in French."})
    session = session_of(tmp_path, span(1, None, **run, input__value=given), span(2, 1, **CHAT))
    assert session.turns[0].user_input is None


DAY_NS = 24 * 3600 * 10**9


def messages(*texts: str) -> str:
    roles = ("user", "assistant")
    said = [{"role": roles[n % 2], "parts": [{"type": "text", "content": t}]} for n, t in enumerate(texts)]
    return json.dumps(said)


def turn_at(number: int, time_ns: int, *texts: str, **attributes: Any) -> Span:
    call = {**CHAT, "gen_ai__input__messages": messages(*texts), **attributes}
    return span(1, None, **call)._replace(
        trace_id=f"{number:032x}", start_ns=time_ns, end_ns=time_ns + 1_000, parent_span_id=None
    )


@pytest.mark.parametrize(
    ("later", "texts", "doubt"),
    [
        (2 * DAY_NS, ("Any soil?",), "reused"),
        (2 * DAY_NS, ("Hi", "Hello", "Any soil?"), None),
        (DAY_NS // 2, ("Any soil?",), None),
    ],
)
@pytest.mark.short_form("later", 2)
def test_an_id_that_is_used_again_long_after_without_common_history_is_named(
    later: int, texts: tuple[str, ...], doubt: str | None, tmp_path: Path
) -> None:
    named = {"gen_ai__conversation__id": "room-1"}
    session = session_of(tmp_path, turn_at(1, 10, "Hi", **named), turn_at(2, later, *texts, **named))
    assert (session.session_id, session.identity_doubt) == ("room-1", doubt)
    kept_by_a_server = [
        turn_at(n, time_ns, text, **named)
        for n, (time_ns, text) in enumerate(((10, "Hi"), (DAY_NS // 9, "And?"), (3 * DAY_NS, "Any soil?")), 1)
    ]
    (tmp_path / "kept").mkdir()
    assert session_of(tmp_path / "kept", *kept_by_a_server).identity_doubt is None


CALLED = {
    "role": "assistant",
    "parts": [{"type": "tool_call", "id": "call_9f2", "name": "refund", "arguments": {"order": "A1"}}],
}
ANSWERED = {
    "role": "tool",
    "parts": [{"type": "tool_call_response", "id": "call_9f2", "response": {"status": "done"}}],
}


def test_a_run_that_is_resumed_without_an_id_is_linked_by_what_it_repeats(
    tmp_path: Path, spangrade: Spangrade
) -> None:
    asked = json.loads(messages("Refund A1."))
    begun = turn_at(1, 10, "Refund A1.", gen_ai__output__messages=json.dumps([CALLED]))
    ran = span(2, None, **TOOL, gen_ai__tool__call__id="call_9f2", gen_ai__tool__call__result='"done"')
    resumed = turn_at(2, 5_000, gen_ai__output__messages=messages("", "Done."))
    resumed = resumed._replace(
        attributes={
            **resumed.attributes,
            "gen_ai.input.messages": json.dumps([*asked, CALLED, ANSWERED]),
        }
    )
    ran = ran._replace(trace_id=resumed.trace_id, start_ns=4_000, end_ns=4_500)
    session = session_of(tmp_path, begun, ran, resumed)
    assert [(c.tool_name, c.call_id, c.output) for c in session.tool_interactions] == [
        ("refund", "call_9f2", "done")
    ]
    assert (session.session_id, session.identity_doubt) == (begun.trace_id, None)
    lost = tmp_path / "lost.duckdb"
    with new_store(lost) as store:
        store.add([ran, resumed])
        update(store)
        (alone,) = load(store)
    assert (alone.session_id, alone.identity_doubt) == (resumed.trace_id, "continues")
    linted = spangrade("lint", "--db", lost)
    assert "it may continue another session" in " ".join(" ".join(linted.out).split())
