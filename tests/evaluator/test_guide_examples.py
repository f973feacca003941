"""The guide to evaluation datasets, example by example: what they say together is graded by its own JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, Spangrade
from otlp_sessions import START_NS
from paths import SHARED

GUIDE = SHARED / "seeds" / "evaluation_datasets.md"

# The JSON of the guide, as it stands there.
ROOT = """{
  "golden_questions": [
    {
      "id": "q_billing_01",
      "user_inputs": ["Hi", "I have a billing question"],
      "agents_evaluated": ["customer_service"],
      "metadata": { ... },
      "reference_data": { ... }
    }
  ]
}"""
TOOLS = """"reference_tool_interactions": [
    {
        "tool_name": "access_cart_information",
        "input_arguments": { "customer_id": "123" }
    },
    {
        "tool_name": "generate_qr_code",
        "input_arguments": { "discount_value": 10 }
    }
]"""
TRAJECTORY = """"reference_trajectory": [
    "GreetingAgent",
    "BillingSupportAgent",
    "PaymentTool"
]"""
STATE = """"reference_state_variables": {
    "customer_intent": "refund",
    "refund_amount": 50.00,
    "target_date": "2024-01-01"
}"""
WHOLE = ROOT.replace('"metadata": { ... }', '"metadata": {"complexity": "high", "topic": "refund"}').replace(
    '"reference_data": { ... }', f'"reference_data": {{{TOOLS}, {TRAJECTORY}, {STATE}}}'
)

Step = str | tuple[str, Mapping[str, Any]]
GREETING, BILLING = "GreetingAgent", "BillingSupportAgent"
CART: Step = ("access_cart_information", {"customer_id": "123"})
QR: Step = ("generate_qr_code", {"discount_value": 10})
PAY: Step = ("PaymentTool", {})
REMEMBERED = {"customer_intent": "refund", "refund_amount": 50, "target_date": "2024-01-01"}
# What the examples say, in two turns.
EXAMPLE: Sequence[Sequence[Step]] = ([GREETING], [BILLING, CART, QR, PAY])


def spans(turns: Sequence[Sequence[Step]], state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the spans of a session: agents (names) and the calls that each made, one trace per turn."""
    found = []
    for number, (text, steps) in enumerate(zip(("Hi", "I have a billing question"), turns, strict=False)):
        at, agent = START_NS + number * 10**10, ""
        for position, step in enumerate(steps):
            span_id = f"{number + 1:08x}{position + 1:08x}"
            attributes = {"gen_ai.conversation.id": "s1"}
            if isinstance(step, str):
                attributes |= {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": step}
                attributes["gen_ai.input.messages"] = json.dumps([{"role": "user", "content": text}])
                attributes["gen_ai.output.messages"] = json.dumps([{"role": "assistant", "content": "Ok"}])
                if number == 1:
                    attributes["spangrade.state"] = json.dumps(state)
            else:
                attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": step[0]}
                attributes |= {"gen_ai.tool.call.arguments": json.dumps(step[1])}
                attributes |= {"gen_ai.tool.call.result": '{"status": "success"}'}
            found.append(
                {
                    "traceId": f"{number + 1:032x}",
                    "spanId": span_id,
                    "parentSpanId": "" if isinstance(step, str) else agent,
                    "name": "step",
                    "startTimeUnixNano": at + position * 10**6,
                    "endTimeUnixNano": at + (10**9 if isinstance(step, str) else (position + 1) * 10**6),
                    "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()],
                }
            )
            agent = span_id if isinstance(step, str) else agent
    return found


@pytest.fixture
def graded(spangrade: Spangrade, tmp_path: Path) -> Any:
    """Grade a session by the dataset of the guide, whose `agents_evaluated` names the service."""

    def grade(
        turns: Sequence[Sequence[Step]] = EXAMPLE,
        state: Mapping[str, Any] = REMEMBERED,
        service: str = "customer_service",
    ) -> Done:
        dataset, recorded = tmp_path / "customer_service_golden.json", tmp_path / "s.otlp.json"
        dataset.write_text(WHOLE)
        named = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
        scope = {"scope": {"name": "tests"}, "spans": spans(turns, state)}
        recorded.write_text(json.dumps({"resourceSpans": [{"resource": named, "scopeSpans": [scope]}]}))
        options = ("--spans", recorded, "--db", tmp_path / "s.duckdb", "--root-agent-name", "service")
        return spangrade("grade", dataset, *options, "--out", tmp_path / "out")

    return grade


@pytest.mark.skipif(not GUIDE.is_file(), reason="the guide is not in this checkout")
def test_the_examples_are_those_of_the_guide() -> None:
    blocks = re.findall(r"^```json\n(.*?)\n```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    assert blocks == [ROOT, TOOLS, TRAJECTORY, STATE]


def test_the_session_that_does_what_the_examples_say_passes_each_of_them(graded: Any, tmp_path: Path) -> None:
    done = graded()
    assert (done.code, done.out[0]) == (0, "1 session: 1 passed")
    (line,) = map(json.loads, (tmp_path / "out" / "sessions.jsonl").read_text().splitlines())
    gates = {name: one["value"] for name, one in line["metrics"].items() if one.get("passed") is not None}
    assert (line["question_id"], gates) == (
        "q_billing_01",
        {
            "turns_answered": 1,
            "trajectory_accuracy": 1,
            "tool_usage_accuracy": 1,
            "state_management_fidelity": 1,
            "agent_routing": 1,
        },
    )


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        pytest.param({"turns": ([GREETING],)}, "turns_answered", id="one turn"),
        pytest.param({"turns": ([BILLING], [CART, QR, PAY])}, "trajectory_accuracy", id="no greeting"),
        pytest.param({"turns": ([GREETING], [BILLING, CART, QR])}, "trajectory_accuracy", id="no payment"),
        pytest.param({"turns": ([GREETING], [BILLING, CART, QR, PAY, PAY])}, "trajectory_accuracy", id="two"),
        pytest.param({"turns": ([BILLING], [GREETING, CART, QR, PAY])}, "trajectory_accuracy", id="swapped"),
        pytest.param({"turns": ([GREETING], [BILLING, CART, PAY])}, "tool_usage_accuracy", id="no code"),
        pytest.param(
            {"turns": ([GREETING], [BILLING, CART, QR, QR, PAY])}, "trajectory_accuracy", id="codes"
        ),
        pytest.param(
            {"turns": ([GREETING], [BILLING, (CART[0], {"customer_id": "124"}), QR, PAY])},
            "tool_usage_accuracy",
            id="another customer",
        ),
        pytest.param({"state": {**REMEMBERED, "refund_amount": 51}}, "state_management_fidelity", id="51"),
        pytest.param({"service": "shop"}, "agent_routing", id="another service"),
    ],
)
@pytest.mark.short_form("change", 6)
@pytest.mark.short_form("missed", 2)
def test_a_session_that_differs_from_one_of_the_examples_fails_by_it(
    graded: Any, tmp_path: Path, change: dict[str, Any], missed: str
) -> None:
    assert graded(**change).code == 1
    (line,) = map(json.loads, (tmp_path / "out" / "sessions.jsonl").read_text().splitlines())
    assert line["metrics"][missed]["passed"] is False
