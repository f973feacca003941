"""The converters of benchmarks, and the agreement with τ-bench that docs/limits.md states."""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections import defaultdict
from collections.abc import Mapping
from math import comb
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from paths import ROOT, SHARED

FOLDER = ROOT / "examples" / "benchmarks"
TAU_BENCH = SHARED / "data" / "tau_bench"
PAGE = (ROOT / "docs" / "notes" / "validated.md").read_text(encoding="utf-8")
CHANGES = (
    "cancel_reservation",
    *(f"update_reservation_{what}" for what in ("baggages", "flights", "passengers")),
)


@pytest.fixture
def run_script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run a script of the examples with arguments, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(FOLDER))

    def run(name: str, *arguments: str | Path) -> None:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(FOLDER / name), run_name="__main__")

    return run


def test_a_converter_has_at_most_100_lines() -> None:
    assert {one.name for one in FOLDER.glob("*.py")} == {"tau_bench.py"}
    assert [one.name for one in FOLDER.glob("*.py") if len(one.read_text().splitlines()) > 100] == []


def verdicts(spangrade: Spangrade, golden: str) -> dict[str, str]:
    """Return the verdicts of a grade of the sessions in `tau.duckdb`, by session."""
    spangrade("grade", golden, "--db", "tau.duckdb", "--out", "report", "--reports", "json")
    lines = map(json.loads, Path("report/sessions.jsonl").read_text().splitlines())
    return {line["session_id"]: line["verdict"] for line in lines if line["session_id"]}


def pass_k(passed: Mapping[str, bool], questions: Mapping[str, str]) -> list[float]:
    """Return pass^1 to pass^4, rounded as the benchmark publishes them."""
    trials = defaultdict(list)
    for session, is_passed in passed.items():
        trials[questions[session]].append(is_passed)
    return [
        round(sum(comb(sum(each), k) / comb(len(each), k) for each in trials.values()) / len(trials), 3)
        for k in (1, 2, 3, 4)
    ]


@pytest.mark.skipif(not TAU_BENCH.is_dir(), reason="the data of τ-bench is not beside this checkout")
@pytest.mark.exhaustive
def test_the_agreement_with_tau_bench_is_that_of_the_page(spangrade: Spangrade, run_script: Any) -> None:
    run_script("tau_bench.py", TAU_BENCH, "out")
    assert spangrade("import", "out/sessions.jsonl", "--db", "tau.duckdb").code == 0
    runs = [json.loads(line) for line in (TAU_BENCH / "sessions.jsonl").read_text().splitlines()]
    rewarded = {one["id"]: one["scores"]["reward"] == 1 for one in runs}
    questions = {one["id"]: one["question_id"] for one in runs}
    rows = re.findall(r"^\| `(\w+)\.json` \|[^|]*\| (\d+) of 200 \| (.*) \|$", PAGE, re.MULTILINE)
    stated = {name: (int(agreed), list(map(float, shares.split(" | ")))) for name, agreed, shares in rows}
    measured = {}
    for name in ("whole", "writes"):
        passed = {
            one: verdict == "passed" for one, verdict in verdicts(spangrade, f"out/{name}.json").items()
        }
        differing = [one for one in rewarded if rewarded[one] != passed[one]]
        measured[name] = (200 - len(differing), pass_k(passed, questions))
        if name == "whole":
            spangrade("label", "--from", "out/labels.csv", "--db", "tau.duckdb")
            command = ("judge", "passed", "--db", "tau.duckdb", "--format", "json")
            agreement = json.loads("\n".join(spangrade(*command).out))
            assert (
                f"gives {agreement['agreed']['number']} of {agreement['agreed']['total']}, kappa 1.000"
                in PAGE
            )
            assert (agreement["kappa"]["estimate"], len(agreement["unjudged"])) == (1.0, 3)
    assert measured == stated
    assert pass_k(rewarded, questions) == [0.42, 0.273, 0.22, 0.2]

    rules = [
        {"first": "get_reservation_details", "then": tool, "same": ["reservation_id"]} for tool in CHANGES
    ]
    tasks = sorted(set(questions.values()))
    golden = [{"id": task, "before": rules, "failed_calls": "ignore"} for task in tasks]
    Path("before.json").write_text(json.dumps(golden))
    spangrade("grade", "before.json", "--db", "tau.duckdb", "--out", "report", "--reports", "json")
    lines = [json.loads(line) for line in Path("report/sessions.jsonl").read_text().splitlines()]
    early = {one["session_id"] for one in lines if "; too early" in one["reason"]}
    changing = {
        one["id"]
        for one in runs
        for message in one["messages"]
        for call in message.get("tool_calls") or ()
        if call["function"]["name"] in CHANGES
    }
    counts = [
        sum(rewarded[one] is good for one in group) for group in (changing, early) for good in (True, False)
    ]
    assert counts == [25, 70, 0, 4]
