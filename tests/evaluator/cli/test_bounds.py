"""The best value that a gate could have had fails a session, and is not taken for a measured one."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from command_line import Spangrade
from otlp_sessions import Said, write_golden, write_sessions


@pytest.mark.exhaustive
def test_the_best_possible_value_is_a_bound_in_every_place(
    tmp_path: Path, spangrade: Spangrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two turns one has a known cost, which alone is beyond the limit."""
    monkeypatch.chdir(tmp_path)
    inputs = ["Hello", "And now?"]
    write_golden(tmp_path / "golden.json", {"id": "q", "user_inputs": inputs, "max_cost_usd": 0.00001})
    turns = [Said(inputs[0], tokens=(1_000, 10)), Said(inputs[1], tokens=None)]
    write_sessions(tmp_path / "spans.jsonl", [("s", turns)])
    assert spangrade("grade", "golden.json", "--spans", "spans.jsonl", "--out", "out").code == 1
    (line,) = (tmp_path / "out/sessions.jsonl").read_text().splitlines()
    outcome = json.loads(line)["metrics"]["max_cost_usd"]
    assert (outcome["outcome"], outcome["passed"], outcome["value"] > 1) == ("bound", False, True)
    assert outcome["reason"].startswith("at best ")
    totals = json.loads((tmp_path / "out/results.json").read_text())["metrics"]["max_cost_usd"]
    assert (totals["scores"], totals["mean"], totals["pass_rate"]) == (0, None, 0.0)
    assert "max_cost_usd is " in (tmp_path / "out/junit.xml").read_text()
    (row,) = csv.DictReader((tmp_path / "out/evaluation_results.csv").open(encoding="utf-8"))
    assert (row["passed.max_cost_usd"], row["score.max_cost_usd"]) == ("False", "")
    stored = spangrade(
        "sql", "SELECT outcome, passed FROM scores WHERE metric = 'max_cost_usd'", "--format", "json"
    )
    assert json.loads("".join(stored.out)) == [{"outcome": "bound", "passed": False}]
    assert spangrade("grade", "golden.json").code == 1
    compared = spangrade("compare", "out", "latest", "--format", "json")
    assert "max_cost_usd" not in {one["metric"] for one in json.loads("".join(compared.out))["metrics"]}
