"""Keys of a question that are not of the format: those that look like references are named, others listed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import command_line
import pytest
from command_line import Spangrade
from grading import grade_recorded
from made_once import copy_of, made_once
from otlp_sessions import Call, Said, recorded_sessions, write_sessions

from spangrade.converters.datasets.golden import GoldenQuestion, ReferenceData
from spangrade.evaluator.metrics import Failure

METRIC = """\
from spangrade import metric


@metric(needs="expected_output", threshold=1)
def tone(session, question):
    return question.reference("expected_output") == "kind"
"""


@pytest.fixture
def db(tmp_path: Path) -> Path:
    def make(path: Path) -> None:
        recording = write_sessions(path.with_suffix(".jsonl"), [("s", [Said("Hi", "It is here.")])])
        assert command_line.run("import", recording, "--db", path).code == 0

    return copy_of(made_once("one-greeting", make), tmp_path / "s.duckdb")


def written(tmp_path: Path, reference: dict[str, Any], **own: Any) -> Path:
    question = {
        "id": "q",
        "user_inputs": ["Hi"],
        "reference_data": {"forbidden_texts": ["lost"], **reference},
    }
    (tmp_path / "golden.json").write_text(json.dumps({"golden_questions": [{**question, **own}]}))
    return tmp_path / "golden.json"


@pytest.mark.parametrize(
    ("reference", "own", "advice"),
    [
        ({"expected_output": "x"}, {}, '"expected_output": did you mean reference_response?'),
        ({}, {"target": "x"}, '"target": did you mean reference_response?'),
        ({"reference_trace": []}, {}, '"reference_trace": did you mean reference_trajectory?'),
        ({}, {"Max-Cost": 1}, '"Max-Cost": did you mean max_cost_usd?'),
    ],
)
@pytest.mark.short_form("reference", 2)
@pytest.mark.short_form("own", 2)
def test_a_key_that_looks_like_a_reference_and_is_not_read_is_inconclusive(
    spangrade: Spangrade,
    tmp_path: Path,
    db: Path,
    reference: dict[str, Any],
    own: dict[str, Any],
    advice: str,
) -> None:
    golden = written(tmp_path, reference, **own)
    reason = f'keys that look like references are not read: {advice} (a key of your own goes into "custom")'
    done = spangrade("grade", golden, "--db", db, "--out", tmp_path / "out")
    assert (done.code, done.out[0], done.err) == (4, "1 session: 1 inconclusive", [])
    (line,) = (tmp_path / "out" / "sessions.jsonl").read_text().splitlines()
    assert json.loads(line)["reason"] == reason
    done = spangrade("lint", "--dataset", golden, "--db", db, "--format", "json")
    found = [one for one in json.loads("\n".join(done.out)) if one["code"] == "unread_reference"]
    assert (done.code, [one["what"] for one in found]) == (4, [reason])


def test_custom_and_what_a_metric_needs_license_any_key(
    spangrade: Spangrade, tmp_path: Path, db: Path
) -> None:
    golden = written(tmp_path, {"custom": {"expected_output": "kind"}}, custom_owner="sales")
    assert spangrade("grade", golden, "--db", db).code == 0
    (tmp_path / "tone.py").write_text(METRIC)
    tone = ("--metrics-file", tmp_path / "tone.py")
    assert spangrade("grade", golden, "--db", db, *tone).code == 0
    golden = written(tmp_path, {"expected_output": "rude"})
    assert spangrade("grade", golden, "--db", db, *tone).code == 1
    assert spangrade("grade", golden, "--db", db).code == 4


def test_a_failed_gate_fails_whatever_is_not_read(spangrade: Spangrade, tmp_path: Path, db: Path) -> None:
    golden = written(tmp_path, {"forbidden_texts": ["here"], "expected_output": "x"})
    assert spangrade("grade", golden, "--db", db).code == 1


def test_other_keys_change_no_verdict_and_are_listed_once(
    spangrade: Spangrade, tmp_path: Path, db: Path
) -> None:
    golden = written(tmp_path, {"tone": "kind"}, updated_datetime="2026-01-01", query="Hi")
    listed = (
        "keys that no metric reads, and that change no verdict: "
        "tone (1 question), updated_datetime (1 question), query (1 question)"
    )
    done = spangrade("grade", golden, "--db", db)
    assert (done.code, done.err) == (0, [f"spangrade: {golden}: {listed}"])
    done = spangrade("lint", "--dataset", golden, "--db", db, "--format", "json")
    assert done.code == 0
    assert [one["what"] for one in json.loads("\n".join(done.out))] == [listed]
    assert done.err == []


SESSION = recorded_sessions(
    [("s1", [Said("Hi", "It is here.", [Call("t", {}, error="ValueError"), Call("t")])])]
)
VALUES = ("ignore", "count", ["t"], {"t": 0}, True, 0, "lost", [["a", "t"]])


@pytest.mark.parametrize(
    "name", sorted({*ReferenceData.model_fields, *GoldenQuestion.model_fields, "rubrics"})
)
def test_no_reference_is_read_from_the_users_own_keys(name: str) -> None:
    references = {"user_inputs": ["Hi"], "forbidden_texts": ["gone"], "at_most": {"t": 1}}
    without = [grade_recorded(SESSION, {**references, "custom": {"own": 1}}).verdict]
    for value in VALUES:
        grade = grade_recorded(SESSION, {**references, "custom": {name: value}})
        assert [grade.verdict] == without, value
        assert all(not isinstance(outcome, Failure) for outcome in grade.outcomes.values())
