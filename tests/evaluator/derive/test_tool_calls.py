"""Tool calls from spans and from messages: each call once, and those that were only requested apart."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import Fields, built_session, observed_fields, question, reading

from spangrade.converters.spans.messages import message_of, read_exchange
from spangrade.converters.spans.observation import MessageCall, ToolResult
from spangrade.evaluator.metrics import Inconclusive, Score, load_metrics, parse_metric
from spangrade.evaluator.session import Session
from spangrade.tracer.span import Span

SHOP = reading("agent", "shop", None, (0, 20), name="shop", user_input="hi")


def ask(
    span_id: str, at: float, *calls: MessageCall, results: tuple[ToolResult, ...] = (), parent: str = "shop"
) -> Fields:
    return reading("llm", span_id, parent, (at, at + 1), tool_calls=calls, tool_results=results)


def call(name: str, call_id: str | None = None, arguments: str | None = '{"a":1}') -> MessageCall:
    return MessageCall(name, call_id, arguments)


def span(name: str, at: float, call_id: str | None = None, **changes: Any) -> Fields:
    recorded = {"arguments": '{"a":1}', "result": '{"ok":true}', "call_id": call_id} | changes
    return reading("tool", f"{name} {at}", "shop", (at, at + 0.5), name=name, **recorded)


def session(*observations: Fields) -> Session:
    return built_session("s1", "conversation", [SHOP, *observations])


def executed(*observations: Fields) -> list[tuple[str, str | None, bool]]:
    calls = session(*observations).tool_interactions
    return [(made.tool_name, made.call_id, made.span_id is not None) for made in calls]


def requested(*observations: Fields) -> list[tuple[str, str | None]]:
    return [(made.tool_name, made.call_id) for made in session(*observations).requested_calls]


def test_a_call_that_only_messages_record_counts_beside_tool_spans() -> None:
    both = ask("1", 1, call("look", "c1"), call("pay", "c2"))
    after = ask("2", 5, results=(ToolResult(None, "c1", "1"), ToolResult(None, "c2", '"paid"')))
    assert executed(both, span("look", 2, "c1"), after) == [("look", "c1", True), ("pay", "c2", False)]
    assert requested(both, span("look", 2, "c1"), after) == []


@pytest.mark.parametrize(
    "recorded",
    [
        span("look", 2, "c1"),
        span("look", 2),
        span("look", 2, arguments=None),
        # A framework adds an argument, or a server's name.
        span("look", 2, arguments='{"a":1,"context":"<object>"}'),
        span("look", 2, arguments="1"),
        span("mcp__shop__look", 2),
    ],
)
def test_a_call_with_a_span_and_messages_counts_once(recorded: Fields) -> None:
    first, after = ask("1", 1, call("look", "c1")), ask("2", 5, results=(ToolResult(None, "c1", "1"),))
    assert [(made.call_id, made.span_id) for made in session(first, recorded, after).tool_interactions] == [
        ("c1", recorded.span_id)
    ]


def test_two_call_ids_are_two_calls() -> None:
    first = ask("1", 1, call("look", "c1"))
    after = ask("2", 5, results=(ToolResult(None, "c1", "1"),))
    other = span("look", 3, "c9", arguments='{"a":2}')
    assert executed(first, other, after) == [("look", "c1", False), ("look", "c9", True)]


def test_a_span_with_an_id_of_the_frameworks_own_is_the_call_of_the_same_name_and_arguments() -> None:
    first = ask("1", 1, call("look", "look_0"), call("look", "look_1"))
    after = ask("2", 5, results=(ToolResult(None, "look_0", "1"), ToolResult(None, "look_1", "2")))
    spans = span("look", 2, "adk-7"), span("look", 3, "adk-8")
    assert executed(first, *spans, after) == [("look", "adk-7", True), ("look", "adk-8", True)]


def test_results_without_call_ids_belong_to_the_calls_of_their_name_in_order() -> None:
    first = ask("1", 1, call("look", "c1"), call("pay", "c2"), call("look", "c3"))
    results = (ToolResult("look", None, "1"), ToolResult("look", None, "2"), ToolResult("pay", None, "3"))
    made = session(first, ask("2", 5, results=results)).tool_interactions
    assert [(one.call_id, one.output) for one in made] == [("c1", 1), ("c2", 3), ("c3", 2)]


def test_a_call_without_span_and_result_was_only_requested() -> None:
    last = ask("1", 1, call("look", "c1"))
    assert (executed(last), requested(last)) == ([], [("look", "c1")])
    assert [step.name for step in session(last).trajectory] == ["shop"]
    # How a model ends its run, and hand-offs, which the next agent's step proves, are not listed.
    assert requested(ask("1", 1, call("final_result"), call("transfer_to_returns"))) == []


REFERENCE = question(tools=[("look", {"a": 1})])


def test_a_reference_that_only_a_requested_call_could_meet_is_inconclusive() -> None:
    metrics = load_metrics()
    made = session(ask("1", 1, call("look", "c1")))
    why = "whether look was executed is not recorded, only that it was requested"
    for name in ("tool_usage_accuracy", "tools:exact", "tools:in_order"):
        outcome = parse_metric(name)(made, REFERENCE)
        assert isinstance(outcome, Inconclusive), name
        assert why in outcome.reason
    steps = metrics["trajectory"](made, question(trajectory=["shop", "look"]), by="exact")
    assert isinstance(steps, Inconclusive)
    # A call of another tool, or with other arguments, cannot meet it.
    for other in (call("pay", "c1"), call("look", "c1", '{"a":2}')):
        outcome = metrics["tool_usage_accuracy"](session(ask("1", 1, other)), REFERENCE)
        assert isinstance(outcome, Score)
        assert outcome.value == 0


def test_a_requested_call_beside_one_that_meets_the_reference_matters_where_no_further_call_may_be() -> None:
    made = session(ask("1", 1, call("look", "c1")), span("look", 2, "c1"), ask("2", 3, call("look", "c2")))
    for metric in ("tools:in_order", "tool_usage_accuracy"):
        outcome = parse_metric(metric)(made, REFERENCE)
        assert isinstance(outcome, Score)
        assert outcome.value == 1
    exact = load_metrics()["tools"](made, REFERENCE, by="exact")
    assert isinstance(exact, Inconclusive)
    assert exact.best == 1


def test_a_handoff_in_messages_is_listed_unless_a_span_of_its_own_names_its_target() -> None:
    agent = reading("agent", "returns", "shop", (6, 9), name="returns")
    first = ask("1", 1, call("transfer_to_returns", "c1", "{}"))
    after = ask("2", 7, results=(ToolResult(None, "c1", '{"assistant":"returns"}'),), parent="returns")
    span_of_it = reading("handoff", "h", "shop", (5, 5.5), agent="shop", handoff_to="returns")
    assert executed(first, agent, after) == [("transfer_to_returns", "c1", False)]
    assert executed(first, span_of_it, agent, after) == []
    assert session(first, span_of_it, agent, after).handoffs == (("shop", "returns"),)


def test_results_without_names_and_ids_belong_to_the_calls_in_order() -> None:
    first = ask("1", 1, call("look"), call("pay"))
    made = session(first, ask("2", 5, results=(ToolResult(None, None, "1"), ToolResult(None, None, "2"))))
    assert [(one.tool_name, one.output) for one in made.tool_interactions] == [("look", 1), ("pay", 2)]


@pytest.mark.parametrize("recorded", [(call("look"),), (), (call("lookpay", "c1c2", None),)])
def test_a_call_that_only_the_next_requests_history_shows_whole_belongs_to_the_call(
    recorded: tuple[MessageCall, ...],
) -> None:
    history = (call("look", "c1"), call("pay", "c2"))
    results = (ToolResult(None, "c1", "1"), ToolResult(None, "c2", "2"))
    after = ask("2", 5, results=results)._replace(repeated_calls=history)
    made = session(ask("1", 1, *recorded), after)
    assert [(one.tool_name, one.call_id, one.output) for one in made.tool_interactions] == [
        ("look", "c1", 1),
        ("pay", "c2", 2),
    ]
    assert made.requested_calls == ()


def test_a_call_that_its_history_repeats_under_another_id_is_one_call() -> None:
    after = ask("2", 5, results=(ToolResult(None, "c1", "1"),))._replace(repeated_calls=(call("look", "fc"),))
    made = session(ask("1", 1, call("look", "c1")), after)
    assert [(one.tool_name, one.call_id, one.output) for one in made.tool_interactions] == [("look", "c1", 1)]
    assert made.requested_calls == ()


@pytest.mark.parametrize(
    ("failed", "ok", "error"), [(None, None, None), (True, False, "no"), (False, True, None)]
)
def test_a_result_that_a_message_marks_as_an_errors_or_not_tells_whether_the_call_failed(
    failed: bool | None, ok: bool | None, error: str | None
) -> None:
    answered = ask("2", 3, results=[ToolResult(None, "c1", '"no"', failed)])
    (tool,) = session(ask("1", 1, call("look", "c1")), answered).tool_interactions
    assert (tool.ok, tool.error) == (ok, error)
    spanned = session(ask("1", 1, call("look", "c1")), span("look", 2, "c1"), answered)
    assert spanned.tool_interactions[0].ok is (failed is not True)


@pytest.mark.parametrize(
    ("part", "failed"),
    [
        ({"type": "tool_result", "tool_use_id": "1", "content": "x"}, None),
        ({"type": "tool_result", "tool_use_id": "1", "content": "x", "is_error": True}, True),
        ({"type": "tool_result", "tool_use_id": "1", "content": "x", "is_error": False}, False),
        ({"toolResult": {"toolUseId": "1", "content": [{"text": "x"}], "status": "error"}}, True),
        ({"toolResult": {"toolUseId": "1", "content": [{"text": "x"}], "status": "success"}}, False),
    ],
)
def test_anthropics_and_bedrocks_marks_of_a_result_are_read(
    part: dict[str, Any], failed: bool | None
) -> None:
    message = message_of({"role": "user", "content": [part]})
    assert message is not None
    assert [result.failed for result in message.tool_results] == [failed]


def test_parallel_calls_that_a_history_repeats_one_by_one_are_all_kept() -> None:
    """Clients may write a message per call, with its result after it, and record no calls of a response."""
    users = {"role": "user", "content": "hi"}

    def pair(name: str, call_id: str) -> list[dict[str, Any]]:
        function = {"name": name, "arguments": '{"a":1}'}
        calls = [{"id": call_id, "type": "function", "function": function}]
        return [
            {"role": "assistant", "tool_calls": calls},
            {"role": "tool", "tool_call_id": call_id, "content": name},
        ]

    history = [users]
    asked = [ask("1", 1)]
    for number, pairs in enumerate([pair("look", "c1"), pair("pay", "c2") + pair("look", "c3")], 2):
        history += pairs
        exchange = read_exchange(history, None)
        asked.append(
            ask(str(number), 2 * number, results=exchange.tool_results)._replace(
                repeated_calls=exchange.repeated_calls
            )
        )
    made = session(*asked)
    assert [(one.tool_name, one.call_id, one.output) for one in made.tool_interactions] == [
        ("look", "c1", "look"),
        ("pay", "c2", "pay"),
        ("look", "c3", "look"),
    ]
    assert made.requested_calls == ()


def test_a_call_and_a_result_in_two_forms_of_one_message_count_once() -> None:
    """Bedrock's instrumentation writes a call as a block and as OpenAI's, and a result as two messages."""
    block = {"toolUse": {"toolUseId": "c1", "name": "look", "input": {"a": 1}}}
    as_openai = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}
    message = message_of({"role": "assistant", "content": [block], "tool_calls": [as_openai]})
    assert message is not None
    assert message.tool_calls == (call("look", "c1"),)
    results = (ToolResult(None, "c1", '"no"'), ToolResult(None, "c1", '"no"', True))
    (made,) = session(ask("1", 1, call("look", "c1")), ask("2", 3, results=results)).tool_interactions
    assert (made.output, made.ok) == ("no", False)


def test_the_repr_of_an_object_is_not_a_result() -> None:
    result = '"[<shop.Content object at 0x7fe7b6079cd0>]"'
    looked = span("look", 2, "c1", result=result)
    (made,) = session(ask("1", 1, call("look", "c1")), looked).tool_interactions
    assert (made.output, made.output_known) == (None, False)
    after = ask("2", 5, results=(ToolResult(None, "c1", '"soil"'),))
    (made,) = session(ask("1", 1, call("look", "c1")), looked, after).tool_interactions
    assert made.output == "soil"


def test_calls_without_ids_that_a_repeated_request_shows_again_are_the_same() -> None:
    first = ask("1", 1, call("look"), call("pay"))
    history, results = (
        (call("look"), call("pay")),
        (ToolResult("look", None, "1"), ToolResult("pay", None, "2")),
    )
    refused = ask("2", 3, results=results)._replace(repeated_calls=history, failed=True, error="429")
    again = ask("3", 5, results=results)._replace(repeated_calls=history, response="done")
    made = session(first, refused, again)
    assert [(one.tool_name, one.output) for one in made.tool_interactions] == [("look", 1), ("pay", 2)]
    assert made.requested_calls == ()


def test_a_handoff_that_several_spans_record_counts_once() -> None:
    """A tool's span with the agent that called it, and a span of its own without one, in either order."""
    desk = reading("agent", "desk", "shop", (6, 9), name="Returns Desk")
    tool = span("transfer_to_returns_desk", 3, "c1")
    alone = reading("handoff", "h", None, (4, 5), handoff_to="returns_desk")
    before = alone._replace(start_ns=2 * 10**9)
    for handoffs in ([tool], [tool, alone], [before, tool], [before, tool, alone]):
        assert session(desk, *handoffs).handoffs == (("shop", "Returns Desk"),)


def test_a_handoff_is_to_the_agent_whose_name_the_tool_has_with_a_number() -> None:
    desk = reading("agent", "desk", "shop", (6, 9), name="desk")
    assert session(desk, span("transfer_to_desk_1", 3)).handoffs == (("shop", "desk"),)
    assert session(desk, span("transfer_to_till_1", 3)).handoffs == (("shop", "till_1"),)


ASKED = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"a": 1}}
FOUND = {"type": "tool_call_response", "id": "c1", "response": "x"}


@pytest.mark.parametrize("call_id", ["c1", None])
@pytest.mark.parametrize(
    "runs",
    [
        [(["user"], ["asked", "found", "said"])],
        [(["user", "asked", "found"], ["said"])],
        [(["user"], ["asked"]), (["user", "asked", "found"], ["said"])],
    ],
    ids=["in its answer", "in its history", "in two runs"],
)
def test_calls_that_only_an_agents_runs_record_are_calls(
    runs: list[tuple[list[str], list[str]]], call_id: str | None
) -> None:
    messages: dict[str, dict[str, Any]] = {
        "user": {"role": "user", "parts": [{"type": "text", "content": "Hi"}]},
        "asked": {"role": "assistant", "parts": [{**ASKED, "id": call_id}]},
        "found": {"role": "tool", "parts": [{**FOUND, "id": call_id, "name": "look"}]},
        "said": {"role": "assistant", "parts": [{"type": "text", "content": "Done."}]},
    }
    spans = [
        Span(
            f"{number:032x}",
            f"{number:016x}",
            None,
            "invoke_agent desk",
            "INTERNAL",
            10 * number,
            10 * number + 5,
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "desk",
                "gen_ai.conversation.id": "s1",
                "gen_ai.input.messages": json.dumps([messages[one] for one in given]),
                "gen_ai.output.messages": json.dumps([messages[one] for one in returned]),
            },
        )
        for number, (given, returned) in enumerate(runs, 1)
    ]
    session = built_session("s1", "conversation", observed_fields(spans))
    assert [(turn.user_input, turn.final_response) for turn in session.turns] == [("Hi", "Done.")]
    calls = [(call.tool_name, call.input_arguments, call.output) for call in session.tool_interactions]
    assert calls == [("look", {"a": 1}, "x")]
