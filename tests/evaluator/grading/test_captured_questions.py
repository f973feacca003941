"""The golden datasets of real agents, graded against their captured sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from paths import CAPTURED

pytestmark = pytest.mark.skipif(
    not CAPTURED.is_dir(), reason="the captured recordings are not in this checkout"
)


@pytest.mark.exhaustive
def test_questions_that_share_their_inputs_and_references_leave_no_session_undecided(
    spangrade: Spangrade, tmp_path: Path
) -> None:
    folder = CAPTURED / "customer_service"
    files = [*folder.glob("trace_*.json"), *folder.glob("session_*.json")]
    spans = [part for file in sorted(files) for part in ("--spans", file)]
    golden, db = folder / "customer_service_golden.json", tmp_path / "s.duckdb"
    out = tmp_path / "out"
    done = spangrade("grade", golden, *spans, "--db", db, "--out", out, "--format", "json")
    run = json.loads("\n".join(done.out))
    assert (run["sessions"], run["unanswered_questions"]) == (4, [])
    # The dataset names the app where the recordings name the agent. Of the calls that the two long questions
    # expect, one session made the first (1 of 6), the other that and the last; none has the plant's name.
    lines = [json.loads(line) for line in (out / "sessions.jsonl").read_text().splitlines()]
    assert sorted((line["verdict"], shares(line)) for line in lines) == [
        ("failed", (1, 1, pytest.approx(1 / 6))),
        ("failed", (1, 1, pytest.approx(2 / 6))),
        ("passed", (1, 1, 1)),
        ("passed", (1, 1, 1)),
    ]
    assert run["root_agents"] == {"customer_service means the root agent customer_service_agent": 4}
    # Without the sessions' own records nothing says so.
    bare = [part for file in sorted(folder.glob("trace_*.json")) for part in ("--spans", file)]
    done = spangrade("grade", golden, *bare, "--db", tmp_path / "bare.duckdb", "--format", "json")
    agent = "agent_routing: did not take part: customer_service; took part: customer_service_agent"
    assert [one["reason"].endswith(agent) for one in json.loads("\n".join(done.out))["grades"]] == [True] * 4
    assert {grade["question_id"] for grade in run["grades"]} == {
        "cs_full_657f2ed9",
        "cs_full_eb4390d8",
        "cs_simple_17a89ba6",
        "cs_simple_2f260f51",
    }


def shares(grade: dict[str, Any]) -> tuple[float, ...]:
    names = ("agent_routing", "trajectory_accuracy", "tool_usage_accuracy")
    return tuple(grade["metrics"][name]["value"] for name in names)


@pytest.mark.parametrize(
    "name", ["customer_service", "retail", "run_20260112_014831.csv", "processed_interaction_sim.jsonl"]
)
@pytest.mark.short_form("name", 4)
def test_what_is_inconclusive_names_what_is_missing_and_how_to_supply_it(
    spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for key in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "SPANGRADE_JUDGE_MODEL"):
        monkeypatch.delenv(key, raising=False)
    folder = CAPTURED / ("simulation" if "." in name else name)
    dataset = folder / name if "." in name else next(folder.glob("*_golden.json"))
    files = [] if "." in name else [*folder.glob("trace_*.json"), *folder.glob("session_*.json")]
    spans = [part for file in sorted(files) for part in ("--spans", file)]
    (metrics,) = folder.glob("metric_definitions*.json")
    db, out = tmp_path / "s.duckdb", tmp_path / "out"
    done = spangrade("grade", dataset, *spans, "--db", db, "--metrics-file", metrics, "--out", out)
    lines = [json.loads(line) for line in (out / "sessions.jsonl").read_text().splitlines()]
    assert done.code == (4 if "." in name else 1)
    assert [line["session_id"] is None for line in lines].count(True) == 0
    reasons = [line["reason"] for line in lines if line["verdict"] == "inconclusive"]
    reasons += [
        outcome["reason"]
        for line in lines
        for outcome in line["metrics"].values()
        if outcome["outcome"] == "inconclusive"
    ]
    assert reasons
    assert [
        reason for reason in reasons if not (reason.partition("; ")[2] or "(spangrade lint" in reason)
    ] == []
