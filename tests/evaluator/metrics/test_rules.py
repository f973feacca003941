"""Rules on the calls of any session: what keeps to each kind, what breaks it, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import SECOND_NS, session, tool

from spangrade.converters.datasets.call_rules import Rule
from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics import Inconclusive, Score, load_metrics
from spangrade.evaluator.metrics.call_rules import broken_by, rule_metric
from spangrade.evaluator.session import RequestedCall, Session, ToolInteraction

REQUESTED = RequestedCall(1, 1, "pay", {}, True, None, None, 9, "t1", "llm")
FAILED = {"ok": False, "error": "Timeout: slow"}
BEFORE = {"before": [{"first": "look_up", "then": "pay", "same": ["id"]}]}
RESULT = {"before": [{"first": "find", "then": "pay", "from_result": ["id"]}]}
ONCE = {"at_most": {"pay": 1}}
NEVER = {"never_after": [["pay", "change"]]}
FOLLOWED = {"followed_by": [{"first": "pay", "then": "receipt", "same": ["id"]}]}
TOLD = {"reply_has": [{"tool": "look_up", "value": "order.total"}]}
FORBIDDEN = {"forbidden_tools": ["pay"]}
IGNORED = {"forbidden_tools": {"tools": ["pay"], "failed_calls": "ignore"}}


def made(*calls: ToolInteraction, reply: str | None = "It is $1,234.", **changes: Any) -> Session:
    """Return a session of calls, each a second after the one before."""
    timed = [
        call._replace(start_ns=at * SECOND_NS, end_ns=(at + 1) * SECOND_NS) for at, call in enumerate(calls)
    ]
    one = session([("hi", timed)], **changes)
    return replace(one, turns=tuple(turn._replace(final_response=reply) for turn in one.turns))


def found(*ids: str) -> ToolInteraction:
    return tool("find", {}, output=[{"order": {"id": one}} for one in ids], output_known=True)


def looked_up(total: Any, **changes: Any) -> ToolInteraction:
    return tool("look_up", {"id": 1}, output={"order": {"total": total}}, output_known=True, **changes)


def pay(number: Any = 1, **changes: Any) -> ToolInteraction:
    return tool("pay", {"id": number}, **changes)


def as_question(rule: Any) -> GoldenQuestion:
    """Return a question that asks what a rule asks for."""
    return GoldenQuestion.model_validate({"id": "q1", "user_inputs": ["hi"], **rule})


@pytest.mark.parametrize(
    ("rule", "kept", "broken"),
    [
        (FORBIDDEN, [made(looked_up(1)), made()], [made(pay()), made(pay(**FAILED))]),
        (IGNORED, [made(pay(**FAILED))], [made(pay())]),
        (
            BEFORE,
            [made(looked_up(1), pay()), made()],
            [made(pay()), made(looked_up(1), pay(2)), made(looked_up(1, **FAILED), pay())],
        ),
        (
            RESULT,
            [made(found("A", "B"), pay("B")), made(found("7"), pay(7.0))],
            [made(found("A"), pay("B")), made(pay("A"))],
        ),
        (ONCE, [made(pay())], [made(pay(), pay(2)), made(pay(**FAILED), pay())]),
        (ONCE | {"failed_calls": "ignore"}, [made(pay(**FAILED), pay())], [made(pay(), pay(2))]),
        (
            NEVER,
            [made(tool("change"), pay()), made(pay(**FAILED), tool("change"))],
            [made(pay(), tool("change"))],
        ),
        (
            FOLLOWED,
            [made(pay(), tool("receipt", {"id": 1})), made(pay(**FAILED))],
            [made(pay()), made(pay(), tool("receipt", {"id": 2}))],
        ),
        (
            TOLD,
            [made(looked_up(1234)), made(looked_up(None)), made(looked_up(9, **FAILED))],
            [made(looked_up(99)), made(looked_up("x"))],
        ),
    ],
)
def test_a_session_keeps_to_a_rule_or_breaks_it_and_so_it_does_to_the_same_in_a_question(
    rule: Any, kept: list[Session], broken: list[Session]
) -> None:
    one, question = Rule(name="one", **rule), as_question(rule)
    assert [broken_by(each, rule=one) for each in kept] == [Score(0.0, None, "none")] * len(kept)
    for each in broken:
        outcome = broken_by(each, rule=one)
        assert isinstance(outcome, Score)
        assert (outcome.value, len(outcome.evidence)) == (1.0, 1), outcome
    gate = load_metrics()[next(iter(rule))]
    assert [gate(each, question) for each in (*kept, *broken)] == [
        broken_by(each, rule=one) for each in (*kept, *broken)
    ]


@pytest.mark.parametrize(
    ("rule", "unknown"),
    [
        (FORBIDDEN, made(requested_calls=(REQUESTED,))),
        (BEFORE, made(tool("look_up"), pay())),
        (RESULT, made(tool("find", {}), pay())),
        (NEVER, made(pay(latency_s=None), tool("change", latency_s=None))),
        (FOLLOWED, made(pay(), tool("receipt"))),
        (TOLD, made(looked_up(99), reply=None)),
        (TOLD, made(looked_up(99), reply="It is [email].")),
        (TOLD, made(tool("look_up", {}))),
        (
            ONCE,
            made(pay(), requested_calls=(REQUESTED,)),
        ),
    ],
)
def test_what_is_not_recorded_breaks_no_rule_and_keeps_to_none(rule: Any, unknown: Session) -> None:
    outcome = broken_by(unknown, rule=Rule(name="one", **rule))
    assert isinstance(outcome, Inconclusive), outcome
    assert load_metrics()[next(iter(rule))](unknown, as_question(rule)) == outcome


def test_a_rule_of_calls_alone_that_is_broken_is_so_whatever_else_is_not_recorded() -> None:
    one = made(pay(), pay(2))
    session = replace(one, turns=(one.turns[0]._replace(calls_unknown="no span has its call"),))
    once, never = Rule(name="once", **ONCE), Rule(name="both", **ONCE, **BEFORE)
    at_least = broken_by(session, rule=once)
    assert isinstance(at_least, Inconclusive)
    assert (at_least.best, rule_metric(once).grows) == (1.0, True)
    unknown = broken_by(session, rule=never)
    assert isinstance(unknown, Inconclusive)
    assert (unknown.best, rule_metric(never).grows) == (None, False)


def test_a_rule_is_a_gate_with_what_it_asks_for_as_its_version() -> None:
    metric = rule_metric(Rule(name="once", **ONCE))
    assert (metric.name, metric.threshold, metric.higher_is_better) == ("rule:once", 0.0, False)
    same = rule_metric(Rule(name="other", support=9, **ONCE))
    other = rule_metric(Rule(name="once", at_most={"pay": 2}))
    assert metric.version == same.version != other.version
