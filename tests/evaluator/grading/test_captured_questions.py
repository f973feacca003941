"""The golden datasets of real agents, graded against their captured sessions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Spangrade
from paths import CAPTURED

pytestmark = pytest.mark.skipif(
    not CAPTURED.is_dir(), reason="the captured recordings are not in this checkout"
)


def test_questions_that_share_their_inputs_and_references_leave_no_session_undecided(
    spangrade: Spangrade, tmp_path: Path
) -> None:
    folder = CAPTURED / "customer_service"
    spans = [part for file in sorted(folder.glob("trace_*.json")) for part in ("--spans", file)]
    golden = folder / "customer_service_golden.json"
    done = spangrade("grade", golden, *spans, "--db", tmp_path / "s.duckdb", "--format", "json")
    run = json.loads("\n".join(done.out))
    assert (run["verdicts"]["failed"], run["sessions"], run["unanswered_questions"]) == (4, 4, [])
    # The dataset names the app where the recordings name the agent.
    agent = "agent_routing: did not take part: customer_service; took part: customer_service_agent"
    assert all(grade["reason"].endswith(agent) for grade in run["grades"])
    assert {grade["question_id"] for grade in run["grades"]} == {
        "cs_full_657f2ed9",
        "cs_full_eb4390d8",
        "cs_simple_17a89ba6",
        "cs_simple_2f260f51",
    }
