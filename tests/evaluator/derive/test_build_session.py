"""A session from observations: small cases, each with the whole session that comes of it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import genai_prices
import pytest
from builders import SECOND_NS, Fields, built_session, llm, observed_fields, reading, step, tool, turn
from paths import RECORDED, SAMPLE

from spangrade.converters.spans.observation import MessageCall, ToolResult
from spangrade.evaluator.derive.build_session import Logged
from spangrade.evaluator.session import Error, Latency, LLMCall, Session, Usage
from spangrade.tracer.files import read
from spangrade.tracer.span import Span

NOTHING = Session(
    session_id="s1",
    session_id_source="conversation",
    question_id=None,
    start_ns=None,
    turns=(),
    trajectory=(),
    agents=None,
    tool_interactions=(),
    handoffs=None,
    state_variables=None,
    llm_calls=(),
    usage=Usage(),
    models=None,
    cost_usd=None,
    cost_unknown=None,
    latency=Latency(total_s=0.0, tool_s=0.0),
    errors=(),
)


def recorded_call(observed: Fields, **changes: Any) -> LLMCall:
    """The model call that an observation records, by the agent `shop`."""
    made = llm(
        observed.model,
        (observed.input_tokens, observed.output_tokens),
        position=1,
        cached_input_tokens=observed.cached_input_tokens,
        reasoning_tokens=observed.reasoning_tokens,
        cost_usd=None,
        start_ns=observed.start_ns,
        end_ns=observed.end_ns,
        latency_s=(observed.end_ns - observed.start_ns) / SECOND_NS,
        span_id=observed.span_id,
    )
    return made._replace(**changes)


SHOP = reading("agent", "shop", None, (0, 10), name="shop", user_input="hi", question_id="q1")
ASK = reading(
    "llm",
    "ask",
    "shop",
    (1, 3),
    model="gpt-4o",
    input_tokens=1000,
    output_tokens=100,
    cached_input_tokens=200,
)
ANSWER = reading(
    "llm", "answer", "shop", (6, 9), model="gpt-4o", input_tokens=2000, output_tokens=10, response="done"
)
LOOK = reading(
    "tool", "look", "shop", (3, 5), name="look", call_id="c1", arguments='{"a":1}', result='{"ok":true}'
)
WHOLE = replace(
    NOTHING,
    question_id="q1",
    start_ns=0,
    turns=(turn(final_response="done", end_ns=10 * SECOND_NS, latency_s=10.0),),
    trajectory=(
        step("shop", "agent", position=1, turn=1, span_id="shop"),
        step("look", position=2, turn=1, start_ns=3 * SECOND_NS, span_id="look"),
    ),
    agents=("shop",),
    tool_interactions=(
        tool(
            "look",
            {"a": 1},
            position=1,
            output={"ok": True},
            output_known=True,
            call_id="c1",
            start_ns=3 * SECOND_NS,
            end_ns=5 * SECOND_NS,
            latency_s=2.0,
        ),
    ),
    handoffs=(),
    llm_calls=(
        # gpt-4o: $2.50 per million input tokens, $1.25 of those from a cache, $10 per million output tokens
        recorded_call(ASK, cost_usd=0.00325),
        recorded_call(ANSWER, position=2, cost_usd=0.0051),
    ),
    usage=Usage(llm_calls=2, input_tokens=3000, output_tokens=110, cached_input_tokens=200, complete=True),
    models=("gpt-4o",),
    cost_usd=0.00835,
    latency=Latency(total_s=10.0, llm_s=5.0, tool_s=2.0, framework_s=3.0, first_response_s=9.0),
)
UNPRICED = ANSWER._replace(model="ours")
REFUSED = LOOK._replace(result='{"error":"no"}')
LOOK_CALL = MessageCall("look", "c1", '{"a":1}')
LOOK_RESULT = ToolResult(None, "c1", "5")
RETURNS = reading("agent", "returns", "shop", (4, 8), name="returns")
TRANSFER = reading("tool", "transfer", "shop", (3, 4), name="transfer_to_returns", result="null")
UNFINISHED = reading("agent", "shop", None, (0, 0), name="shop", timed=False)

CASES: dict[str, tuple[list[Fields], Session]] = {
    "nothing": ([], NOTHING),
    "an agent, two model calls and a tool": ([SHOP, ASK, LOOK, ANSWER], WHOLE),
    "a call that two nested spans record": (
        [
            SHOP,
            ASK._replace(cached_input_tokens=None),
            ASK._replace(span_id="in", parent_span_id="ask"),
            LOOK,
            ANSWER,
        ],
        WHOLE,
    ),
    "a tool's arguments that only the messages have": (
        [SHOP, ASK._replace(tool_calls=(LOOK_CALL,)), LOOK._replace(arguments=None, call_id=None), ANSWER],
        WHOLE,
    ),
    "a model without a price": (
        [SHOP, ASK, LOOK, UNPRICED],
        replace(
            WHOLE,
            llm_calls=(WHOLE.llm_calls[0], recorded_call(UNPRICED, position=2, context_window=None)),
            models=("gpt-4o", "ours"),
            cost_usd=None,
            cost_unknown="ours",
        ),
    ),
    "a tool that failed": (
        [SHOP, ASK, REFUSED, ANSWER],
        replace(
            WHOLE,
            tool_interactions=(
                WHOLE.tool_interactions[0]._replace(output={"error": "no"}, ok=False, error="no"),
            ),
            errors=(Error("tool look", "no", "t1", "look"),),
        ),
    ),
    "a tool that only messages record": (
        [
            SHOP,
            ASK._replace(tool_calls=(LOOK_CALL,)),
            ANSWER._replace(tool_results=(ToolResult(None, "c1", "5"),)),
        ],
        replace(
            WHOLE,
            trajectory=(WHOLE.trajectory[0], WHOLE.trajectory[1]._replace(span_id=None)),
            tool_interactions=(
                WHOLE.tool_interactions[0]._replace(
                    output=5, end_ns=6 * SECOND_NS, latency_s=None, span_id=None
                ),
            ),
            latency=Latency(total_s=10.0, llm_s=5.0, first_response_s=9.0),
        ),
    ),
    "a hand-off to an agent": (
        [SHOP, TRANSFER, RETURNS],
        replace(
            NOTHING,
            question_id="q1",
            start_ns=0,
            turns=(turn(final_response=None, end_ns=10 * SECOND_NS, latency_s=10.0),),
            trajectory=(
                step("shop", "agent", position=1, turn=1, span_id="shop"),
                step("transfer_to_returns", position=2, turn=1, start_ns=3 * SECOND_NS, span_id="transfer"),
                step("returns", "agent", position=3, turn=1, start_ns=4 * SECOND_NS, span_id="returns"),
            ),
            agents=("shop", "returns"),
            tool_interactions=(
                tool(
                    "transfer_to_returns",
                    position=1,
                    output_known=True,
                    handoff=True,
                    start_ns=3 * SECOND_NS,
                    end_ns=4 * SECOND_NS,
                    span_id="transfer",
                ),
            ),
            handoffs=(("shop", "returns"),),
            latency=Latency(total_s=10.0, tool_s=1.0),
        ),
    ),
    "a turn without an end, sampled, in a release": (
        [UNFINISHED._replace(sampled=True, agent_version="7")],
        replace(
            NOTHING,
            start_ns=0,
            turns=(turn(user_input=None, final_response=None, end_ns=0, latency_s=None),),
            trajectory=(step("shop", "agent", position=1, turn=1, span_id="shop"),),
            agents=("shop",),
            handoffs=(),
            latency=Latency(tool_s=0.0),
            sampled=True,
            agent_version="7",
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_session_is_what_its_observations_record_in_whatever_order(name: str) -> None:
    observations, expected = CASES[name]
    assert built_session("s1", "conversation", observations) == expected
    shuffled = Random(1).sample(observations, len(observations))
    assert built_session("s1", "conversation", [*shuffled, *observations]) == expected


def test_the_last_write_of_a_variable_counts_in_spans_and_session_logs_alike() -> None:
    writing = SHOP._replace(state=((2, {"x": 2, "y": 2}), (5, {"y": 5})))
    logged = Logged(state=[(1, {"x": 1, "z": 1}), (4, {"y": 4})])
    session = built_session("s1", "conversation", [writing], logged=logged)
    assert session.state_variables == {"x": 2, "z": 1, "y": 5}
    empty = Logged(state=[(1, {})])
    assert built_session("s1", "conversation", [SHOP], logged=empty).state_variables == {}


def test_the_sample_costs_its_tokens_at_the_published_price_of_its_model() -> None:
    by_id: dict[str, list[Span]] = {}
    for span in read(SAMPLE / "spans.otlp.jsonl"):
        if isinstance(span, Span) and "gen_ai.conversation.id" in span.attributes:
            by_id.setdefault(span.attributes["gen_ai.conversation.id"], []).append(span)
    costs = {
        session_id: built_session(session_id, "conversation", observed_fields(spans)).cost_usd
        for session_id, spans in by_id.items()
    }
    # gemini-2.5-flash: $0.30 per million input tokens, $2.50 per million output tokens
    tokens = {"conversation-1": (149, 27), "conversation-2": (242, 43)}
    for session_id, (tokens_in, tokens_out) in tokens.items():
        assert costs[session_id] == pytest.approx((tokens_in * 0.30 + tokens_out * 2.50) / 1e6, abs=1e-12)
    assert len(costs) == 4
    assert None not in costs.values()


def test_a_recording_with_cached_tokens_costs_what_the_library_says_of_each_call() -> None:
    spans = [span for span in read(RECORDED / "openai_genai.otlp.jsonl") if isinstance(span, Span)]
    session = built_session("s1", "conversation", observed_fields(spans))
    prices = [
        genai_prices.calc_price(
            genai_prices.Usage(
                input_tokens=call.input_tokens,
                output_tokens=call.output_tokens,
                cache_read_tokens=call.cached_input_tokens,
            ),
            str(call.model),
        ).total_price
        for call in session.llm_calls
    ]
    assert any(call.cached_input_tokens for call in session.llm_calls)
    assert session.cost_usd == pytest.approx(float(sum(prices)), abs=1e-12)
    assert [call.cost_usd for call in session.llm_calls] == pytest.approx([float(price) for price in prices])


def test_a_turn_failed_if_its_topmost_span_that_ended_last_did() -> None:
    def failed(*observations: Fields) -> list[bool]:
        return [one.failed for one in built_session("s1", "conversation", list(observations)).turns]

    first, last = (reading("llm", name, None, at, model="m") for name, at in (("a", (0, 1)), ("b", (2, 3))))
    assert failed(SHOP._replace(failed=True), ASK) == [True]
    assert failed(SHOP, ASK._replace(failed=True)) == [False]
    assert failed(first._replace(failed=True), last) == [False]
    assert failed(first, last._replace(failed=True)) == [True]


def test_tokens_of_0_for_an_answer_are_not_the_whole_usage_and_have_no_price() -> None:
    def counted(**changes: Any) -> tuple[int | None, int | None, bool, float | None, str | None]:
        made = built_session("s1", "conversation", [SHOP, ANSWER._replace(**changes)])
        usage = made.usage
        return usage.input_tokens, usage.output_tokens, usage.complete, made.cost_usd, made.cost_unknown

    zero: dict[str, Any] = {"input_tokens": 0, "output_tokens": 0}
    assert counted(**zero) == (0, 0, False, None, "gpt-4o")
    assert counted(**zero, response=None) == (0, 0, True, 0.0, None)
    assert counted(input_tokens=0, output_tokens=10)[:2] == (0, 10)
