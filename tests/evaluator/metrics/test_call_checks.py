"""Checks of calls that need no reference, on made sessions and on every recording that declares its tools."""

from __future__ import annotations

from typing import Any

import pytest
import recordings
from builders import session, tool

from spangrade.evaluator.metrics import Inconclusive, Outcome, Score, parse_metric
from spangrade.evaluator.session import RequestedCall, Session

LOOK_UP = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string", "pattern": "^A[0-9]+$"},
        "fields": {"type": "array", "items": {"enum": ["status", "total"]}},
    },
    "required": ["order_id"],
    "additionalProperties": False,
}
WIDE = {  # 1,600 references
    "$ref": "#/$defs/a",
    "$defs": {
        "a": {"allOf": [{"$ref": "#/$defs/b"}] * 40},
        "b": {"allOf": [{"$ref": "#/$defs/c"}] * 40},
        "c": {},
    },
}
IN_GEMINIS_FORM = {
    "type": "OBJECT",
    "properties": {
        "nullable": {"type": "STRING", "nullable": True},
        "default": {"type": "TYPE_UNSPECIFIED"},
        "type": {"type": "ARRAY", "items": {"type": "INTEGER"}, "maxItems": "1"},
    },
}


def counted(why: str) -> Score:
    return Score(1.0, None, why, ("find",))


def measured(name: str, made: Session) -> Outcome:
    outcome: Outcome = parse_metric(name)(made)
    return outcome


def declaring(*calls: Any, **schemas: Any) -> Session:
    """Return a session of the agent `shop`, to which these tools are declared."""
    declarations = [{"function_declarations": [{"name": n, "parameters": s}]} for n, s in schemas.items()]
    return session(
        [("hi", calls)], tool_declarations=declarations, declared_to=tuple(("shop", n) for n in schemas)
    )


def requested(name: str, arguments: Any) -> RequestedCall:
    return RequestedCall(1, 1, name, arguments, True, None, "shop", 0, "t1", "llm")


@pytest.mark.parametrize(
    ("schema", "arguments", "why"),
    [
        (LOOK_UP, {"order_id": "A1", "fields": ["status"]}, None),
        (LOOK_UP, {"order_id": 5}, "find(order_id): 5 is not of type 'string'"),
        (LOOK_UP, {"order_id": "B1"}, "find(order_id): 'B1' does not match '^A[0-9]+$'"),
        (LOOK_UP, None, "find: 'order_id' is a required property"),
        (LOOK_UP, "A1", "find: 'A1' is not of type 'object'"),
        (
            LOOK_UP,
            {"order_id": "A1", "fields": ["total", "sum"]},
            "find(fields[1]): 'sum' is not one of ['status', 'total']",
        ),
        (
            LOOK_UP,
            {"order_id": "A1", "x": 1},
            "find: Additional properties are not allowed ('x' was unexpected)",
        ),
        (IN_GEMINIS_FORM, {"nullable": None, "type": [1], "default": 1}, None),
        (IN_GEMINIS_FORM, {"type": [1, 2]}, "find(type): [1, 2] is too long"),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"required": ["a"]}}}, {}, "find: 'a' is a required property"),
        ({"items": [{}], "$schema": "http://json-schema.org/draft-07/schema#"}, {}, None),
    ],
)
def test_arguments_conform_to_the_declared_schema(schema: Any, arguments: Any, why: str | None) -> None:
    expected = Score(0.0, None, "none") if why is None else Score(1.0, None, why, ("find",))
    assert measured("schema_violations", declaring(tool("find", arguments), find=schema)) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "no type"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "#"},
        WIDE,
        {"properties": {"text": {"pattern": "^(a+)+$"}}},
        {"properties": {"text": {"pattern": "(?<name>a)"}}},
        {"patternProperties": {"^(a+)+$": {"type": "string"}}},
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_checked_decides_nothing(schema: Any) -> None:
    outcome = measured("schema_violations", declaring(tool("find", {"text": "a" * 3000 + "!"}), find=schema))
    assert isinstance(outcome, Inconclusive)
    assert outcome.best == 0.0
    assert "declared schema" in outcome.reason


def test_several_declarations_of_a_tool_each_allow_a_call() -> None:
    either = [
        {"function_declarations": [{"name": "find", "parameters": {"required": [key]}}]} for key in "ab"
    ]
    made = session([("hi", [tool("find", {"a": 1}), tool("find", {"b": 1})])], tool_declarations=either)
    assert measured("schema_violations", made) == Score(0.0, None, "none")


@pytest.mark.parametrize("name", ["schema_violations", "undeclared_calls"])
def test_without_declarations_only_a_session_without_calls_is_known(name: str) -> None:
    outcome = measured(name, session([("hi", [tool("find", {})])]))
    assert isinstance(outcome, Inconclusive)
    assert "gen_ai.tool.definitions" in outcome.reason
    assert measured(name, session([("hi", [])])) == Score(0.0, None, "none")


def test_what_is_masked_or_not_recorded_violates_no_schema() -> None:
    masked = declaring(tool("find", {"order_id": "[email]"}), find=LOOK_UP)
    assert measured("schema_violations", masked) == Inconclusive("the arguments of find are masked", 0.0)
    unrecorded = declaring(tool("find"), tool("find", {}), find=LOOK_UP)
    assert measured("schema_violations", unrecorded) == Inconclusive(
        "the arguments of find are not recorded; find: 'order_id' is a required property", 1.0
    )


def test_requested_calls_count_and_handoffs_do_not() -> None:
    made = declaring(tool("go", {}, handoff=True), find=LOOK_UP)
    requests = (requested("go", {}), requested("find", {}), requested("pay", {}))
    made = session(
        [("hi", made.tool_interactions)],
        tool_declarations=made.tool_declarations,
        declared_to=made.declared_to,
        requested_calls=requests,
    )
    violations = measured("schema_violations", made)
    assert isinstance(violations, Inconclusive)
    assert (violations.best, violations.reason.split("; ")[0]) == (
        1.0,
        "the parameters of pay are not declared",
    )
    assert measured("undeclared_calls", made) == Score(1.0, None, "pay is not declared to shop", ("llm",))


@pytest.mark.parametrize(
    ("agent", "declared", "expected"),
    [
        ("shop", (("shop", "find"),), Score(0.0, None, "none")),
        ("shop", (("desk", "find"), ("shop", "pay")), counted("find is not declared to shop")),
        ("shop", ((None, "find"), ("shop", "pay")), Score(0.0, None, "none")),
        (None, (("desk", "find"),), Score(0.0, None, "none")),
        (None, (("desk", "pay"),), counted("find is not declared")),
        ("shop", (("desk", "find"),), "the tools of the agent shop are not declared; record the tools"),
    ],
)  # fmt: skip
def test_a_tool_is_declared_to_its_agent(agent: str | None, declared: Any, expected: Any) -> None:
    outcome = measured(
        "undeclared_calls", session([("hi", [tool("find", agent=agent)])], declared_to=declared)
    )
    if isinstance(expected, str):
        assert isinstance(outcome, Inconclusive)
        assert outcome.reason.startswith(expected)
    else:
        assert outcome == expected


def answered(result: Any, arguments: Any = None, **changes: Any) -> Any:
    return tool("find", arguments or {"id": 1}, output=result, output_known=True, **changes)


def failed(**changes: Any) -> Any:
    return tool("find", {"id": 1}, ok=False, error="TimeoutError: slow", **changes)


@pytest.mark.parametrize(
    ("calls", "repeated", "tried_again"),
    [
        ([answered("a"), answered("a"), answered("a")], 2.0, 0.0),
        ([answered("a"), answered("b"), answered("a", {"id": 2})], 0.0, 0.0),
        ([failed(), failed(), answered("a")], 1.0, 2.0),
        ([failed(agent="desk"), answered("a")], 0.0, 0.0),
        ([failed(approval="rejected"), answered("a")], 0.0, 0.0),
        ([tool("go", {}, handoff=True, ok=False), tool("go", {}, handoff=True)], 0.0, 0.0),
    ],
)
def test_calls_are_counted_that_were_made_again(calls: Any, repeated: float, tried_again: float) -> None:
    made = session([("hi", calls)])
    outcomes = measured("repeated_calls", made), measured("retries", made)
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Score)] == [repeated, tried_again]


def test_what_is_not_recorded_of_calls_made_again_leaves_them_open() -> None:
    made = session([("hi", [answered("a"), answered("a"), tool("find", ok=None), answered("b")])])
    assert measured("repeated_calls", made) == Inconclusive(
        'the arguments or results of find are not recorded (spangrade lint says how); find{"id":1} again', 1.0
    )
    assert measured("retries", made) == Inconclusive("whether find failed is not recorded", 0.0)
    alone = session([("hi", [tool("find", ok=None)])])
    assert measured("repeated_calls", alone) == measured("retries", alone) == Score(0.0, None, "none")


@pytest.mark.exhaustive
def test_no_recorded_agent_violates_what_its_tools_declare() -> None:
    known = 0
    for name in recordings.NAMES:
        for made in recordings.recorded_sessions(name):
            for metric in ("schema_violations", "undeclared_calls"):
                outcome = measured(metric, made)
                assert not isinstance(outcome, Score) or outcome.value == 0, (name, outcome)
                known += isinstance(outcome, Score)
    assert known >= 60
