"""An agent that chooses each call only from the answer before finds what was changed, in few calls."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp_clients import asked, over_http, run, serving

import spangrade
from spangrade.evaluator.apps.mcp.tools import Tools

MOST_CALLS = 8
ORDERS = [f"A{number}" for number in range(1, 13)]
QUESTIONS: list[dict[str, Any]] = [
    {
        "id": f"refund-{order}",
        "user_inputs": [f"Refund {order}"],
        "required_texts": ["done"],
        "reference_data": {
            "reference_tool_interactions": [
                {"tool_name": "verify", "input_arguments": {"customer": "ann"}},
                {"tool_name": "refund", "input_arguments": {"order_id": order}},
            ],
            "reference_state_variables": {"status": "refunded"},
        },
    }
    for order in ORDERS
]


class Shop(NamedTuple):
    """An agent that refunds orders, and one way in which it may be broken."""

    defect: str = ""

    def __call__(self, text: str) -> str:
        order = text.rsplit(maxsplit=1)[-1]
        with spangrade.agent("shop"):
            self.plan()
            if self.defect != "no verify":
                with spangrade.tool("verify") as verify:
                    verify.arguments({"customer": "ann"})
                    verify.result({"ok": True})
            with spangrade.tool("refund") as refund:
                refund.arguments({"order_id": "A12" if self.defect == "wrong order" else order})
                if self.defect == "timeout":
                    refund.result({"status": "error", "error": "payment gateway timed out"})
                    return "Please try again."
                refund.result({"status": "ok"})
            spangrade.set_state(status="pending" if self.defect == "state" else "refunded")
        return "The refund is done."

    def plan(self) -> None:
        """Ask the model, which has the whole catalogue in its prompt if that is what is broken."""
        with spangrade.llm_call("gemini-2.5-flash") as call:
            call.usage(input_tokens=90_000 if self.defect == "prompt" else 900, output_tokens=20)


def next_call(answer: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Choose the next call by an answer alone; None if there is nothing to ask."""
    recorded = answer["recorded"]
    first = recorded[0] if isinstance(recorded, list) else recorded
    if "graded_at" in first:
        later, earlier = recorded[:2]
        return "compare", {"first": earlier["name"], "second": later["name"]}
    if "summary" in first:
        if broken := [one["broken"] for one in recorded if "broken" in one]:
            return "session", {"session": broken[0]["sessions_in_second"][0].split()[0]}
        worse = [one["metric"] for one in recorded if one.get("change") == "worse"]
        sort = "tokens" if worse[0] == "token_usage" else "cost"
        return "sessions", {"query": f"run:{first['second']['run_id']} origin:any", "sort": sort}
    if "first_input" in first:
        return "session", {"session": first["session_id"]}
    if "graded_by_run" in first:
        return "session", {"session": first["session_id"], "part": part_to_read(recorded)}
    return None


def part_to_read(outline: list[dict[str, Any]]) -> str:
    """Return which part of an outline says most."""
    steps = [step for turn in outline for step in turn.get("steps", ())]
    where = outline[0].get("where", "")
    if failed := next((step for step in steps if "→ failed" in step), None):
        return " ".join(failed.split()[:2])
    if "missing" in outline[0].get("reason", "") or "state" in outline[0].get("reason", ""):
        return "question"
    if named := next((step for step in steps if step.startswith("call") and step.split()[2] in where), None):
        return " ".join(named.split()[:2])
    return next(" ".join(step.split()[:2]) for step in steps if step.startswith("model"))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("defect", "found"),
    [
        ("wrong order", r'"tool_name": "refund", "input_arguments": \{"order_id": "A12"\}'),
        ("no verify", r'"tool_name": "verify"'),
        ("timeout", r"payment gateway timed out"),
        ("state", r'"status": "refunded"'),
        ("prompt", r'"input_tokens": 90000'),
    ],
)
@pytest.mark.short_form("defect", 5)
async def test_a_planted_defect_is_found_in_few_calls(tmp_path: Path, defect: str, found: str) -> None:
    db = tmp_path / "s.duckdb"
    run(db, tmp_path, "before", Shop(), QUESTIONS)
    run(db, tmp_path, "after", Shop(defect), QUESTIONS)
    with serving(Tools(spangrade.open(db, settings=None))) as url:
        async with over_http(url) as client:
            call: tuple[str, dict[str, Any]] | None = ("runs", {})
            calls = []
            while call is not None and len(calls) <= MOST_CALLS:
                calls.append(call)
                answer = await asked(client, call[0], **call[1])
                call = next_call(answer)
    assert len(calls) <= MOST_CALLS
    assert re.search(found, json.dumps(answer["recorded"])), (calls, answer)
