"""Which steps `reference_trajectory` is compared with, by the verdict on a session."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from grading import grade_recorded
from made_once import new_database
from otlp_sessions import START_NS, write_golden

from spangrade import Gates
from spangrade.evaluator.grading.run import Grade
from spangrade.evaluator.grading.verdict import exit_code
from spangrade.evaluator.metrics import Score

GREETING, BILLING, PAYMENT = "GreetingAgent", "BillingSupportAgent", "PaymentTool"
CART = ("access_cart_information", {"customer_id": "123"})
QR = ("generate_qr_code", {"discount_value": 10})
PAY, DELETE = (PAYMENT, {}), ("delete_account", {})
FAILS = "no connection"

Step = str | tuple[str, dict[str, Any] | None] | tuple[str, dict[str, Any], str]

# The guide's own example.
TOOLS = [{"tool_name": name, "input_arguments": arguments} for name, arguments in (CART, QR)]
GUIDE: Sequence[Step] = (GREETING, BILLING, CART, QR, PAY)


def spans_of(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Return the spans of one turn: agents (names) under the first one, calls under the newest agent.

    A call is a name and its arguments, None where they are not recorded, and, if it failed, its error.
    """
    spans: list[dict[str, Any]] = []
    agent = None
    for number, step in enumerate(steps):
        is_agent = isinstance(step, str)
        name = step if isinstance(step, str) else step[0]
        attributes = {"gen_ai.conversation.id": "s1"}
        if is_agent:
            attributes |= {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
        else:
            attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
            if step[1] is not None:
                attributes |= {"gen_ai.tool.call.arguments": json.dumps(step[1])}
            attributes |= {} if len(step) == 3 else {"gen_ai.tool.call.result": '"done"'}
        if number == 0:
            attributes |= {"gen_ai.input.messages": '[{"role":"user","content":"Hi"}]'}
        spans.append(
            {
                "traceId": "a" * 32,
                "spanId": f"{number + 1:016x}",
                "parentSpanId": ("" if number == 0 else f"{1:016x}") if is_agent else agent,
                "name": name,
                "startTimeUnixNano": START_NS + number * 10**6,
                "endTimeUnixNano": START_NS + (10**9 if is_agent else (number + 1) * 10**6),
                "attributes": [
                    {"key": key, "value": {"stringValue": value}} for key, value in attributes.items()
                ],
                "status": {"code": 2, "message": step[2]} if len(step) == 3 and not is_agent else {},
            }
        )
        agent = spans[-1]["spanId"] if is_agent else agent
    return spans


def grade(steps: Iterable[Step], *gates: str, **references: Any) -> Grade:
    """The grade of the session of some steps, against the question "Hi" with the references given."""
    recorded = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "tests"}, "spans": spans_of(steps)}]}]}
    return grade_recorded(recorded, {"user_inputs": ["Hi"], "agents": [GREETING], **references}, Gates(gates))


def code(steps: Iterable[Step], *gates: str, **references: Any) -> int:
    """The exit code of a grade of the session of some steps."""
    return exit_code([grade(steps, *gates, **references).verdict])


def value(graded: Grade, name: str) -> float:
    """The value of a metric of a session."""
    outcome = graded.outcomes[name]
    assert isinstance(outcome, Score)
    return outcome.value


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param(GUIDE, 0, id="exactly that"),
        pytest.param((GREETING, BILLING, QR, PAY, CART), 0, id="the calls elsewhere"),
        pytest.param((GREETING, BILLING, CART, (*QR, FAILS), QR, PAY), 0, id="a call that is made again"),
        pytest.param((GREETING, CART, GREETING, BILLING, QR, PAY), 0, id="an agent that goes on"),
        pytest.param(GUIDE[:-1], 1, id="no payment"),
        pytest.param((GREETING, CART, QR, PAY), 1, id="no billing agent"),
        pytest.param((*GUIDE, PAY), 1, id="two payments"),
        pytest.param((*GUIDE, GREETING), 1, id="an agent again"),
        pytest.param((GREETING, PAY, BILLING, CART, QR), 1, id="out of order"),
        pytest.param((*GUIDE, DELETE), 1, id="delete_account"),
        pytest.param((*GUIDE, (*DELETE, FAILS)), 1, id="delete_account that failed"),
        pytest.param((GREETING, BILLING, CART, QR, QR, QR, QR, PAY), 1, id="four codes"),
        pytest.param((GREETING, "RefundAgent", BILLING, CART, QR, PAY), 1, id="a detour"),
    ],
)
def test_the_example_of_the_guide_passes_for_the_session_that_does_that(
    steps: Sequence[Step], expected: int
) -> None:
    references = {"reference_tool_interactions": TOOLS, "reference_trajectory": [GREETING, BILLING, PAYMENT]}
    assert code(steps, **references) == expected
    assert code(steps, "trajectory_accuracy>=0.99", **references) == expected


@pytest.mark.parametrize(
    ("trajectory", "steps", "expected"),
    [
        ([GREETING], (GREETING, CART, DELETE), 0),  # only agents are compared
        ([PAYMENT], (GREETING, BILLING, PAY), 0),  # only tools are
        ([PAYMENT], (GREETING, PAY, DELETE), 1),
        ([GREETING, PAYMENT], (GREETING, PAY, DELETE), 1),
        ([GREETING, PAYMENT], (GREETING, PAY), 0),
    ],
)
def test_only_the_kinds_of_steps_are_compared_that_the_reference_names(
    trajectory: list[str], steps: Sequence[Step], expected: int
) -> None:
    assert code(steps, reference_trajectory=trajectory) == expected


def test_a_name_that_is_nobodys_agent_is_a_tool() -> None:
    """The reference's tool was never called, another one was."""
    graded = grade((GREETING, DELETE), "trajectory:precision>=1", reference_trajectory=[GREETING, PAYMENT])
    assert (graded.verdict, value(graded, "trajectory:precision")) == ("failed", 0.5)


@pytest.mark.parametrize(
    ("steps", "values"),
    [
        ((GREETING, CART, QR, PAY), [1, 1, 1]),
        ((GREETING, QR, CART, PAY), [1, 1, 1]),
        ((GREETING, QR, DELETE, CART, PAY), [0, 1, 8 / 9]),
        ((GREETING, QR, PAY, CART), [0, 0, 3 / 4]),
        ((GREETING, CART, CART, PAY), [0, 0, 3 / 4]),
    ],
)
def test_steps_in_a_nested_list_may_come_in_any_order(steps: Sequence[Step], values: list[float]) -> None:
    names = ("trajectory:exact", "trajectory:in_order", "trajectory_accuracy")
    trajectory = [GREETING, [CART[0], QR[0]], PAYMENT]
    graded = grade(steps, *(f"{name}>=1" for name in names), reference_trajectory=trajectory)
    assert [value(graded, name) for name in names] == pytest.approx(values)


@pytest.mark.parametrize("step", [3, [], ["a", 3], [["a"]], None])
def test_a_step_that_is_neither_a_name_nor_a_list_of_names_is_refused_in_one_line(
    spangrade: Spangrade, tmp_path: Path, step: Any
) -> None:
    golden = write_golden(
        tmp_path / "g.json", {"id": "q1", "user_inputs": ["Hi"], "reference_trajectory": [GREETING, step]}
    )
    done = spangrade("grade", golden, "--db", new_database(tmp_path / "s.duckdb"))
    assert done.code == 2
    (line,) = done.err
    where = 'golden_questions[0] (id "q1").reference_data.reference_trajectory[1]: expected'
    assert line.startswith(f"spangrade: {golden}: {where}")


def test_a_call_whose_arguments_are_not_recorded_may_be_one_that_is_expected() -> None:
    """Whether the step is one too many is unknown; without a call of that tool in the reference it is."""
    unknown = ("access_cart_information", None)
    references = {"reference_tool_interactions": TOOLS[:1], "reference_trajectory": [GREETING, PAYMENT]}
    assert code((GREETING, unknown, PAY), **references) == 4
    assert code((GREETING, unknown, PAY, DELETE), **references) == 1


def test_an_agent_that_is_used_as_a_tool_is_one_step() -> None:
    """Its call and its own span stand beside each other, and a reference may name it once or twice."""
    steps = (GREETING, ("Intake", {}), "Intake", PAY)
    for named in (["Intake"], ["Intake", "Intake"]):
        assert code(steps, reference_trajectory=[GREETING, *named, PAYMENT]) == 0
    assert code(steps, reference_trajectory=[GREETING, PAYMENT]) == 1
