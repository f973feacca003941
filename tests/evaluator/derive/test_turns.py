"""The messages of a turn, where a turn begins, and the steps in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import recordings
from builders import Fields, built_session, reading
from recordings import dotted, observed

from spangrade.converters.spans.messages import message_of
from spangrade.converters.spans.observation import Kind, MessageCall
from spangrade.evaluator.session import Session
from spangrade.tracer.span import Span

SHOP = reading("agent", "shop", None, (0, 20), name="shop", user_input="hi")


def ask(span_id: str, at: float, **changes: Any) -> Fields:
    return reading("llm", span_id, "shop", (at, at + 1), **changes)


def session(*observations: Fields) -> Session:
    return built_session("s1", "conversation", list(observations))


def turns(*observations: Fields) -> list[tuple[str | None, str | None]]:
    return [(turn.user_input, turn.final_response) for turn in session(*observations).turns]


@pytest.mark.parametrize(
    "placeholder",
    [
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "5d41402abc4b2a76b9719d911017c592",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "{}",
        "None",
        "<crew.Input object at 0x7f4f10591f90>",
    ],
)
def test_an_identifier_or_a_placeholder_is_not_the_users_message(placeholder: str) -> None:
    run = SHOP._replace(user_input=placeholder)
    assert turns(run) == [(None, None)]
    assert turns(run, ask("1", 1, user_input="hi", response="ho")) == [("hi", "ho")]


@pytest.mark.parametrize("text", ["Order 777, please", "none of these", "redacted or not?", "42", "hi"])
def test_a_message_is_not_taken_for_a_placeholder(text: str) -> None:
    assert turns(SHOP._replace(user_input=text)) == [(text, None)]


@pytest.mark.parametrize(("reply", "text"), [(42, "42"), (579.5, "579.5"), (True, "true")])
def test_a_reply_that_is_a_number_or_true_is_a_text(reply: Any, text: str) -> None:
    message = message_of({"role": "assistant", "content": reply})
    assert message is not None
    assert message.text == text
    run = observed(dotted(openinference__span__kind="AGENT", output__value=text))
    assert run.response == text


def test_a_reply_that_is_a_list_is_its_json_text() -> None:
    run = observed(dotted(openinference__span__kind="AGENT", output__value='["a", 1]'))
    assert run.response == '["a",1]'


def test_a_final_text_of_blanks_is_not_the_reply_if_an_earlier_one_has_words() -> None:
    assert turns(SHOP, ask("1", 1, response="done"), ask("2", 3, response=" \n")) == [("hi", "done")]
    assert turns(SHOP, ask("1", 1, response="\n")) == [("hi", "\n")]


def test_an_agent_is_named_again_after_a_tool_that_another_agent_called() -> None:
    def agent(name: str, at: float, parent: str) -> Fields:
        return reading("agent", f"{name} {at}", parent, (at, at + 1), name=name)

    def tool(name: str, at: float, parent: str) -> Fields:
        return reading("tool", f"{name} {at}", parent, (at, at + 1), name=name)

    team = reading("agent", "team", None, (0, 20), name="Team")
    delegates = [tool("delegate", 1, "team"), tool("delegate", 5, "team")]
    finance = [agent("Finance", 2, "delegate 1"), agent("Finance", 6, "delegate 5")]
    made = session(team, *delegates, *finance)
    assert [step.name for step in made.trajectory] == ["Team", "delegate", "Finance", "delegate", "Finance"]
    # Its own tools do not come between.
    again = [agent("Team", 3, "team"), tool("look", 2, "team")]
    assert [step.name for step in session(team, *again).trajectory] == ["Team", "look"]


def call(span_id: str, parent: str | None, at: float, message: str, **changes: Any) -> Fields:
    asked = {"user_input": message, "continues": False} | changes
    return reading("llm", span_id, parent, (at, at + 1), **asked)


def test_three_user_messages_in_one_workflow_are_three_turns() -> None:
    flow = reading("workflow", "flow", None, (0, 20))
    runs = [reading("agent", f"run {at}", "flow", (at, at + 3), name="shop") for at in (1, 5, 9)]
    calls = [
        call("1", "run 1", 2, "one", response="first"),
        call("2", "run 5", 6, "two", response="second", previous_reply="first"),
        call("3", "run 9", 10, "three", response="third", previous_reply="second"),
    ]
    made = session(flow, *runs, *calls)
    assert [(t.user_input, t.final_response, t.latency_s) for t in made.turns] == [
        ("one", "first", 3.0),
        ("two", "second", 3.0),
        ("three", "third", 3.0),
    ]
    assert [made_call.turn for made_call in made.llm_calls] == [1, 2, 3]


def test_a_prompt_that_a_run_makes_of_its_message_does_not_begin_a_turn() -> None:
    flow = reading("workflow", "flow", None, (0, 20), user_input="one")
    planner = call("1", "flow", 1, "Plan: one", response="a, b")
    executor = call("2", "flow", 3, "Execute: a, b", response="done")
    assert turns(flow, planner, executor) == [("one", "done")]
    # A sub-agent that remembers its own conversation is called twice for one message.
    tools = [reading("tool", f"ask {at}", "flow", (at, at + 2), name="ask") for at in (1, 6)]
    subs = [
        call("s1", "ask 1", 1.5, "price?", response="10"),
        call("team", "flow", 4, "one", tool_calls=(MessageCall("ask", None, None),)),
        call("s2", "ask 6", 6.5, "stock?", response="3", previous_reply="10"),
    ]
    assert turns(flow, *tools, *subs) == [("one", "3")]


def test_two_messages_to_one_agent_under_one_request_are_two_turns_and_one_message_is_one() -> None:
    request = reading("other", "POST", None, (0, 20))
    first = reading("agent", "a", "POST", (1, 3), name="shop", user_input="one", response="1")
    second = first._replace(span_id="b", start_ns=4 * 10**9, end_ns=5 * 10**9, user_input="two", response="2")
    assert turns(request, first, second) == [("one", "1"), ("two", "2")]
    for same in (second._replace(user_input="one"), second._replace(user_input=None)):
        assert len(turns(request, first, same)) == 1
    # The topmost span hangs under a remote parent, or under none.
    for parent in ("elsewhere", None):
        assert turns(first._replace(parent_span_id=parent)) == [("one", "1")]


def test_spans_in_another_trace_during_a_turn_belong_to_it() -> None:
    run = SHOP._replace(response="done")
    client = call("1", None, 2, "hi", response="done")._replace(trace_id="t2")
    assert turns(run, client) == [("hi", "done")]
    after = client._replace(start_ns=30 * 10**9, end_ns=31 * 10**9, user_input="more")
    assert turns(run, after) == [("hi", "done"), ("more", "done")]


def test_a_call_in_the_trace_of_a_turns_last_call_continues_it_and_one_in_another_trace_does_not() -> None:
    traces = ["t1", *("".join(("t", number)) for number in "223")]  # equal texts, as they are read
    first, second, third, other = (
        reading("llm", str(n), None, (2 * n, 2 * n + 1), response=str(n))._replace(trace_id=trace)
        for n, trace in enumerate(traces)
    )
    begun, continued = first._replace(user_input="hi"), second._replace(continues=True)
    assert turns(begun, continued, third) == [("hi", "2")]
    assert turns(begun, continued, other) == [("hi", "1"), (None, "3")]


def test_a_model_call_with_a_message_of_its_own_during_a_turn_of_its_trace_belongs_to_it() -> None:
    aside = call("1", None, 2, "summarize the order", response="one item")
    assert turns(SHOP, aside) == [("hi", "one item")]


def test_an_agent_that_starts_after_the_answer_does_not_make_it_missing() -> None:
    answered = call("1", None, 1, "hi", response="ho")
    audit = reading("agent", "audit", "1", (1.5, 2), name="audit")
    again = call("2", None, 3, "hi", response="ho again")._replace(trace_id="t2")
    assert turns(answered, audit, again) == [("hi", "ho"), ("hi", "ho again")]


def test_what_ran_in_another_trace_before_a_turns_last_call_does_not_end_it() -> None:
    client = reading("llm", "1", None, (2, 3), user_input="hi", response="early", trace_id="t2")
    assert turns(SHOP, ask("2", 10, response="late"), client) == [("hi", "late")]


def test_runs_under_one_caller_that_is_not_recorded_are_one_turn() -> None:
    first = reading("workflow", "first", "caller", (0, 1), user_input="hi", response="ha")
    second = reading("workflow", "second", "caller", (2, 3), response="ho")
    assert turns(first, second) == [("hi", "ho")]


def test_a_message_that_is_asked_again_because_it_got_no_answer_is_one_turn() -> None:
    refused = call("1", None, 1, "hi", failed=True)
    again = call("2", None, 3, "hi", response="ho")._replace(trace_id="t2")
    assert turns(refused, again) == [("hi", "ho")]
    assert turns(refused._replace(response="hey"), again) == [("hi", "hey"), ("hi", "ho")]


def adk_run(number: int, texts: list[str], answer: str | None) -> list[Span]:
    """Return the spans of one run of ADK, whose request ends with a user's message; None is no answer."""
    contents = [
        {"role": ("user", "model")[text.startswith("A ")], "parts": [{"text": text}]} for text in texts
    ]
    response = (
        {"content": {"role": "model", "parts": [{"text": answer}]}} if answer else {"error_code": "STOP"}
    )
    llm = {
        "gen_ai.operation.name": "generate_content",
        "gcp.vertex.agent.session_id": "s1",
        "gcp.vertex.agent.llm_request": json.dumps({"contents": contents}),
        "gcp.vertex.agent.llm_response": json.dumps(response),
    }
    trace_id, root, at = f"{number:032x}", f"{number:016x}", number * 10**9
    times: dict[str, Any] = {"start_ns": at, "end_ns": at + 10**8, "scope_name": "gcp.vertex.agent"}
    return [
        Span(trace_id, root, None, "invocation", "INTERNAL", **times),
        Span(trace_id, "c" * 16, root, "call_llm", "INTERNAL", attributes=llm, **times),
    ]


def test_a_question_that_a_user_repeats_because_no_answer_came_is_a_turn_of_its_own(tmp_path: Path) -> None:
    spans = [
        *adk_run(1, ["hi"], "A hello"),
        *adk_run(2, ["hi", "A hello", "my cart?"], None),
        *adk_run(3, ["hi", "A hello", "my cart?", "my cart?"], "A 2 items"),
    ]
    for name, arrived in {"forth": spans, "back": spans[::-1]}.items():
        (made,) = recordings.sessions(arrived, tmp_path / f"{name}.duckdb")
        assert [(turn.user_input, turn.final_response) for turn in made.turns] == [
            ("hi", "A hello"),
            ("my cart?", None),
            ("my cart?", "A 2 items"),
        ]
    again = [*spans[:4], *adk_run(3, ["hi", "A hello", "my cart?"], "A 2 items")]
    (made,) = recordings.sessions(again, tmp_path / "again.duckdb")
    assert [(turn.user_input, turn.final_response) for turn in made.turns] == [
        ("hi", "A hello"),
        ("my cart?", "A 2 items"),
    ]


def test_a_question_that_a_user_repeats_while_it_is_answered_is_a_turn_of_its_own() -> None:
    first = call("1", "shop", 1, "hi", response="one", user_messages=1)
    second = call("2", None, 3, "hi", response="two", user_messages=2)._replace(trace_id="t2")
    assert turns(SHOP, first, second) == [("hi", "one"), ("hi", "two")]
    assert turns(SHOP, first, second._replace(user_messages=1)) == [("hi", "two")]


def test_two_runs_with_one_message_under_one_request_are_two_turns_if_the_second_has_it_twice() -> None:
    request = reading("other", "POST", None, (0, 20))
    runs = [reading("agent", f"a{at}", "POST", (at, at + 2), name="shop", user_input="hi") for at in (1, 5)]
    calls = [
        call(f"m{at}", f"a{at}", at, "hi", response=reply, user_messages=number)
        for at, reply, number in ((1, None, 3), (5, "ho", 4))
    ]
    assert turns(request, *runs, *calls) == [("hi", None), ("hi", "ho")]
    assert turns(request, *runs, calls[0], calls[1]._replace(user_messages=3)) == [("hi", "ho")]


def test_a_run_whose_own_input_is_its_final_history_does_not_continue_the_turn_before_it() -> None:
    """Its last message is a tool's result, but its first model call got the user's message."""
    first = reading("agent", "a1", None, (0, 2), name="shop", user_input="one")
    second = reading("agent", "a2", None, (5, 9), name="shop", user_input="two", continues=True)
    second = second._replace(trace_id="t2")
    inside = [
        call("m2", "a2", 5, "two"),
        reading("tool", "find", "a2", (6, 7), name="find"),
        call("m3", "a2", 8, "two", continues=True, response="second"),
    ]
    made = session(
        first,
        call("m1", "a1", 1, "one", response="first"),
        second,
        *(o._replace(trace_id="t2") for o in inside),
    )
    assert [(turn.user_input, turn.final_response) for turn in made.turns] == [
        ("one", "first"),
        ("two", "second"),
    ]
    assert [tool.turn for tool in made.tool_interactions] == [2]


def test_the_agent_to_which_a_turn_hands_over_in_another_trace_continues_it() -> None:
    transfer = reading("tool", "go", "shop", (3, 4), name="transfer_to_returns_agent")
    returns = reading("agent", "r", None, (30, 31), name="Returns Agent", trace_id="t2")
    assert len(turns(SHOP, transfer, returns)) == 1
    assert len(turns(SHOP, transfer, returns._replace(name="sales"))) == 2
    assert len(turns(SHOP, transfer, returns._replace(user_input="more"))) == 2


def test_a_function_is_a_run_only_where_no_agents_work_is_around_it() -> None:
    function = reading("workflow", "f", None, (0, 9), run_input="hi", run_output="ho", only_topmost=True)
    call = reading("llm", "ask", "f", (1, 2), response="said")
    web = reading("other", "web", None, (0, 10))
    assert turns(function, call) == [("hi", "said")]
    assert turns(web, function._replace(parent_span_id="web"), call) == [("hi", "said")]
    failed = {"failed": True, "error": "no"}
    inner = function._replace(parent_span_id="shop", **failed, state=((1, {"a": 1}),))
    made = session(SHOP, inner)
    assert (made.errors, made.state_variables) == ((), None)
    assert [e.where for e in session(function._replace(**failed)).errors] == ["run None"]


def test_tools_alone_are_not_a_turn() -> None:
    before = reading("tool", "before", None, (0, 1), name="look", trace_id="t0")
    after = reading("tool", "after", None, (30, 31), name="look", trace_id="t2")
    run = SHOP._replace(start_ns=2 * 10**9)
    made = session(before, run, after)
    assert [(turn.user_input, turn.trace_ids) for turn in made.turns] == [("hi", ("t0", "t1", "t2"))]
    assert [tool.turn for tool in made.tool_interactions] == [1, 1]
    assert len(session(before).turns) == 1
    served = reading("workflow", "served", None, (40, 41), trace_id="t3", of_protocol=True)
    assert len(session(run, served).turns) == 1


MCP = dotted(
    mcp__method__name="tools/call", gen_ai__operation__name="execute_tool", gen_ai__tool__name="look"
)


def test_a_trace_of_a_transport_alone_is_neither_a_session_nor_a_turn(tmp_path: Path) -> None:
    def alone(name: str, **changes: Any) -> Span:
        return Span("b" * 32, "d" * 16, None, name, "SERVER", 5 * 10**9, 6 * 10**9, **changes)

    run = dotted(
        gen_ai__operation__name="invoke_agent", gen_ai__agent__name="shop", gen_ai__conversation__id="c1"
    )
    agent = Span("a" * 32, "c" * 16, None, "invoke_agent shop", "INTERNAL", 1, 10**9, attributes=run)
    for number, other in enumerate(
        (
            alone("tools/call look", attributes=MCP),
            alone("look.tool", attributes={"traceloop.span.kind": "workflow"}, scope_name="x.mcp"),
            alone("POST", attributes={"http.request.method": "POST"}),
            alone("SELECT", attributes={"db.system.name": "postgresql", "session.id": "c1"}),
        )
    ):
        made = recordings.sessions([agent, other], tmp_path / f"{number}.duckdb")
        assert [(s.session_id, len(s.turns)) for s in made] == [("c1", 1)], other.name
    in_conversation = alone("tools/call look", attributes=MCP | {"gen_ai.conversation.id": "c1"})
    (made_whole,) = recordings.sessions([agent, in_conversation], tmp_path / "whole.duckdb")
    assert (len(made_whole.turns), [t.tool_name for t in made_whole.tool_interactions]) == (1, ["look"])


@pytest.mark.parametrize("parent", [None, "web", "not recorded"])
def test_the_input_and_output_of_a_run_count_wherever_it_hangs(parent: str | None) -> None:
    web = reading("other", "web", None, (0, 10))
    run = reading("workflow", "run", parent, (0, 9), run_input="hi", run_output="ho")
    call = reading("llm", "ask", "run", (1, 2), user_input="Answer this: hi")
    assert turns(web, run, call) == [("hi", "ho")]


def test_a_handoff_inside_a_trace_does_not_begin_a_turn() -> None:
    web = reading("other", "web", None, (0, 20))
    first = reading("agent", "first", "web", (0, 5), name="shop", user_input="hi")
    over = reading("tool", "over", "first", (3, 4), name="transfer_to_returns")
    second = reading("agent", "second", "web", (5, 9), name="returns")
    call = reading("llm", "ask", "second", (6, 7), response="done")
    assert turns(web, first, over, second, call) == [("hi", "done")]
    alone = [one._replace(parent_span_id=None) for one in (first, second)]
    assert turns(*alone, over, call) == [("hi", "done")]


def test_each_span_of_a_turn_is_one_also_under_a_caller_that_is_not_recorded() -> None:
    talk = reading("other", "talk", "remote", (0, 9))
    spans = [
        o
        for number in (1, 5)
        for o in (
            reading("turn", f"t{number}", "talk", (number, number + 3)),
            reading("llm", f"m{number}", f"t{number}", (number, number + 1), user_input=f"hi {number}"),
        )
    ]
    turns = built_session("s1", "conversation", [talk, *spans]).turns
    assert [turn.user_input for turn in turns] == ["hi 1", "hi 5"]


def talk_of_two_turns(kind: Kind, *others: Fields, begins: float = 0) -> Session:
    talk = reading(kind, "talk", None, (begins, 20), name="talk")
    spans = [
        o
        for at in (1, 5)
        for o in (
            reading("turn", f"t{at}", "talk", (at, at + 3)),
            reading("llm", f"m{at}", f"t{at}", (at, at + 1), user_input=f"hi {at}"),
        )
    ]
    return session(talk, *spans, *others)


@pytest.mark.parametrize("kind", ["workflow", "agent"])
@pytest.mark.parametrize("begins", [0, 1])
def test_turns_inside_a_run_are_the_turns_and_last_as_long_as_they(kind: Kind, begins: float) -> None:
    made = talk_of_two_turns(kind, begins=begins)
    assert [(turn.user_input, turn.latency_s) for turn in made.turns] == [("hi 1", 3.0), ("hi 5", 3.0)]
    assert [step.turn for step in made.trajectory] == ([1] if kind == "agent" else [])


def test_a_tool_between_the_turns_inside_an_agents_run_belongs_to_the_turn_before_it() -> None:
    tools = [reading("tool", name, "talk", (at, at + 0.5), name=name) for name, at in (("a", 0.2), ("b", 4))]
    made = talk_of_two_turns("agent", *tools)
    assert [turn.user_input for turn in made.turns] == ["hi 1", "hi 5"]
    assert [(tool.tool_name, tool.turn) for tool in made.tool_interactions] == [("a", 1), ("b", 1)]


def test_a_greeting_before_the_turns_inside_an_agents_run_is_a_turn() -> None:
    made = talk_of_two_turns("agent", reading("llm", "greets", "talk", (0.25, 0.5), response="Hello!"))
    found = [(turn.user_input, turn.final_response, turn.latency_s) for turn in made.turns]
    assert found == [(None, "Hello!", 0.25), ("hi 1", None, 3.0), ("hi 5", None, 3.0)]


def test_an_agent_that_prepares_before_the_turns_inside_an_agents_run_adds_no_turn() -> None:
    planner = reading("agent", "planner", "talk", (0.25, 0.75), name="planner")
    opened = reading("tool", "open", "planner", (0.5, 0.6), name="open")
    made = talk_of_two_turns("agent", planner, opened)
    assert [turn.user_input for turn in made.turns] == ["hi 1", "hi 5"]
    assert [tool.turn for tool in made.tool_interactions] == [1]


@pytest.mark.parametrize(
    "over",
    [
        reading("tool", "over", "shop", (2, 3), name="transfer_to_desk"),
        reading("tool", "over", "shop", (2, 3), name="ask", handoff_to="desk"),
        reading("handoff", "over", "shop", (2, 3), handoff_to="desk"),
        reading("handoff", "over", "shop", (2, 3), name="switch", arguments='{"agent_name":"desk"}'),
    ],
)
def test_an_agent_to_which_a_tool_handed_over_does_not_begin_a_turn(over: Fields) -> None:
    shop = reading("agent", "shop", "lost 1", (0, 3), name="shop", user_input="hi")
    desk = reading("agent", "desk", "lost 2", (4, 6), name="desk", user_input="hi", response="done")
    assert turns(shop, over, desk) == [("hi", "done")]
    assert len(turns(shop, over._replace(kind="tool", name="ask", handoff_to=None), desk)) == 2


def test_an_agent_to_which_the_model_handed_over_does_not_begin_a_turn() -> None:
    """The span around both was lost, and the hand-off has no span of its own."""
    to_desk = MessageCall("transfer_to_desk", "c1", "{}")
    shop = reading("agent", "shop", "lost 1", (0, 3), name="shop", user_input="hi")
    asked = reading("llm", "m1", "shop", (1, 2), user_input="hi", continues=False, tool_calls=(to_desk,))
    desk = reading("agent", "desk", "lost 2", (4, 6), name="desk", user_input="hi")
    answer = reading("llm", "m2", "desk", (5, 6), user_input="hi", continues=False, response="done")
    turns = built_session("s1", "conversation", [shop, asked, desk, answer]).turns
    assert [(turn.user_input, turn.final_response) for turn in turns] == [("hi", "done")]


def test_the_reply_that_a_turn_records_comes_before_the_models() -> None:
    turn = reading("turn", "t", None, (0, 9), response="Ho!")
    call = reading("llm", "m", "t", (1, 2), user_input="hi", response="ho")
    assert turns(turn, call) == [("hi", "Ho!")]
    assert turns(turn._replace(response=None), call) == [("hi", "ho")]


def test_one_agent_and_its_tools_hand_nothing_over() -> None:
    shop = reading("agent", "shop", None, (0, 9), name="shop")
    tool = reading("tool", "find", "shop", (1, 2), name="find")
    desk = reading("agent", "desk", "shop", (3, 4), name="desk")
    assert session(shop, tool).handoffs == ()
    assert session(shop, tool, desk).handoffs is None  # no model call, which would have requested it


@pytest.mark.parametrize(("at", "seconds"), [(3, [1, 1]), (4, [1, 1]), (2.5, [20])])
def test_a_message_after_the_reply_begins_a_turn_and_one_during_the_call_does_not(
    at: float, seconds: list[float]
) -> None:
    flow = reading("workflow", "flow", None, (0, 20))
    first = call("1", "flow", 2, "one", response="first")
    second = call("2", "flow", at, "two", response="second", previous_reply="first")
    assert [turn.latency_s for turn in session(flow, first, second).turns] == seconds
