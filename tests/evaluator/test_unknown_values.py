"""What is unknown decides nothing: where what it may be decides a gate both ways, the gate is inconclusive.

A session of two calls and a reply is graded with each of its values as it may be recorded, and without it.
A gate that passes, or fails, without a value does not do the opposite with any that it may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import pytest
from builders import question, session, tool
from grading import run_metric

from spangrade.evaluator.metrics import Metric, Score, load_metrics, parse_metric
from spangrade.evaluator.session import RequestedCall, Session, ToolInteraction

UNKNOWN, REMOVED = "not recorded", "removed"


class Facts(NamedTuple):
    """What is recorded of a turn that calls `look` and `pay`, and of its reply.

    Of a call that is not recorded it is known that a model requested it; of an order, that both began at
    once; of a removed argument, that there is one.
    """

    look: str
    order: str
    look_arguments: str
    pay_arguments: str
    result: str
    reply: str


ARGUMENTS = {"1": {"id": 1}, "2": {"id": 2}, "none": {}, REMOVED: {"id": None}}
RESULTS = {"1 and 5": {"id": 1, "sum": 5}, "2 and 6": {"id": 2, "sum": 6}, "1": {"id": 1}, "no object": []}
# What each may be, the last ones if it is not known.
MAY_BE: Mapping[str, tuple[list[str], list[str]]] = {
    "look": (["ran", "failed", "not made"], [UNKNOWN]),
    "order": (["look first", "pay first"], [UNKNOWN]),
    "look_arguments": (["1", "2", "none"], [REMOVED, UNKNOWN]),
    "pay_arguments": (["1", "2", "none"], [REMOVED, UNKNOWN]),
    "result": ([*RESULTS], [UNKNOWN]),
    "reply": (["It is 5.", "Done."], [UNKNOWN]),
}
NOT_REMOVED = {REMOVED: {"none"}}  # of an argument that was removed it is known that there was one


class Gate(NamedTuple):
    """The references of a question, the metric that is a gate by them, and the facts on which it depends."""

    references: Mapping[str, Any]
    metric: str
    depends_on: tuple[str, ...]


IN_ORDER = {"first": "look", "then": "pay"}
SAME, FROM_RESULT = IN_ORDER | {"same": ["id"]}, IN_ORDER | {"from_result": ["id"]}
MADE, TIMED = ("look",), ("look", "order")
BOTH = ("look", "look_arguments", "pay_arguments")
CALLS, WITH_ARGUMENTS = ["look", "pay"], [("look", {"id": 1}), ("pay", {"id": 1})]
NOT_FAILED = {"tools": ["look"], "failed_calls": "ignore"}
# Where times do not tell the order of calls, lists of calls go by the order in which they are recorded.
GATES = {
    "forbidden": Gate({"forbidden_tools": ["look"]}, "forbidden_tools", MADE),
    "forbidden, unless it failed": Gate({"forbidden_tools": NOT_FAILED}, "forbidden_tools", MADE),
    "at most none": Gate({"at_most": {"look": 0}}, "at_most", MADE),
    "before": Gate({"before": [CALLS]}, "before", TIMED),
    "before, the same": Gate({"before": [SAME]}, "before", ("order", *BOTH)),
    "before, with its result": Gate(
        {"before": [FROM_RESULT]}, "before", ("look", "order", "result", "pay_arguments")
    ),
    "never after": Gate({"never_after": [CALLS]}, "never_after", TIMED),
    "never after, the same": Gate({"never_after": [SAME]}, "never_after", ("order", *BOTH)),
    "followed by": Gate({"followed_by": [CALLS]}, "followed_by", TIMED),
    "followed by, the same": Gate({"followed_by": [SAME]}, "followed_by", ("order", *BOTH)),
    "a reply has it": Gate(
        {"reply_has": [{"tool": "look", "value": "sum"}]}, "reply_has", ("look", "result", "reply")
    ),
    "calls": Gate({"tools": CALLS}, "tools:any_order>=1", MADE),
    "calls in order": Gate({"tools": CALLS}, "tools:in_order>=1", MADE),
    "these calls exactly": Gate({"tools": WITH_ARGUMENTS}, "tools:exact>=1", BOTH),
    "calls with arguments": Gate({"tools": WITH_ARGUMENTS}, "tools:any_order>=1", BOTH),
    "accuracy": Gate({"tools": WITH_ARGUMENTS}, "tool_usage_accuracy>=1", BOTH),
    "a call with its result": Gate(
        {"reference_tool_interactions": [{"tool_name": "look", "output": {"id": 1}}]},
        "tools:any_order>=1",
        ("look", "result"),
    ),
    "no further calls": Gate({"tools": ["pay"], "no_further_calls": True}, "unexpected_calls<=0", MADE),
    "none of these arguments": Gate(
        {"tools": [("look", {"id": 2}), "pay"], "no_further_calls": True},
        "unexpected_calls<=0",
        ("look", "look_arguments"),
    ),
    "trajectory": Gate({"trajectory": ["shop", *CALLS]}, "trajectory:in_order>=1", MADE),
    "trajectory exactly": Gate({"trajectory": ["shop", *CALLS]}, "trajectory:exact>=1", MADE),
    "a text": Gate({"required_texts": ["5"]}, "required_texts", ("reply",)),
}


def recorded(facts: Facts) -> Session:
    """Return the session of which this is recorded."""
    start_s = {"look first": {"look": 0, "pay": 2}, "pay first": {"look": 2, "pay": 0}}.get(facts.order, {})

    def call(name: str, arguments: str) -> ToolInteraction:
        start_ns = start_s.get(name, 0) * 10**9
        made = tool(name, start_ns=start_ns, end_ns=start_ns + 10**9, latency_s=1.0 if start_s else None)
        values = ARGUMENTS.get(arguments)
        return made._replace(
            input_arguments=values,
            arguments_known=values is not None and arguments != REMOVED,
            arguments_removed=arguments == REMOVED,
        )

    look, pay = call("look", facts.look_arguments), call("pay", facts.pay_arguments)
    look = look._replace(output=RESULTS.get(facts.result), output_known=facts.result in RESULTS)
    look = look._replace(ok=False, error="down") if facts.look == "failed" else look
    made = [look, pay] if facts.look in {"ran", "failed"} else [pay]
    whole = session([("hi", sorted(made, key=lambda one: one.start_ns))])
    asked = RequestedCall(
        *(0, 1, "look", look.input_arguments, look.arguments_known, None, "shop", look.start_ns, "t1", "m")
    )._replace(arguments_removed=look.arguments_removed)
    reply = None if facts.reply == UNKNOWN else facts.reply
    return replace(
        whole,
        turns=tuple(one._replace(final_response=reply) for one in whole.turns),
        requested_calls=(asked,) if facts.look == UNKNOWN else (),
    )


def with_a_value(facts: Facts, names: Iterable[str]) -> Iterator[Facts]:
    """Yield facts with each value that one that is not known may have."""
    for name in names:
        known, unknown = MAY_BE[name]
        if (lacking := getattr(facts, name)) in unknown:
            for value in known:
                if value not in NOT_REMOVED.get(lacking, ()):
                    yield facts._replace(**{name: value})


@cache
def metric(text: str) -> Metric:
    load_metrics()
    return parse_metric(text)


def is_passed(gate: Gate, facts: Facts) -> bool | None:
    """Return whether a gate passes, None if it is inconclusive."""
    outcome = run_metric(metric(gate.metric), recorded(facts), question(**gate.references))
    return outcome.passed if isinstance(outcome, Score) else None


@pytest.mark.parametrize("gate", GATES.values(), ids=GATES)
def test_what_is_unknown_decides_no_gate_that_it_could_decide_both_ways(gate: Gate) -> None:
    default = Facts("ran", "look first", "1", "1", "1 and 5", "It is 5.")
    options = [[*known, *unknown] for known, unknown in map(MAY_BE.__getitem__, gate.depends_on)]
    verdicts = {
        facts: is_passed(gate, facts)
        for values in product(*options)
        for facts in [default._replace(**dict(zip(gate.depends_on, values, strict=True)))]
    }
    wrong = [
        (facts, with_it)
        for facts, passed in verdicts.items()
        if passed is not None
        for with_it in with_a_value(facts, gate.depends_on)
        if verdicts[with_it] is (not passed)
    ]
    assert wrong == []
    known = {verdicts[facts] for facts in verdicts if not {UNKNOWN, REMOVED}.intersection(facts)}
    assert known == {True, False}  # without anything unknown it is never inconclusive
