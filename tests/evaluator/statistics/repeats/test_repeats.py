"""Several sessions of a question, graded: rates, flaky questions, and every report that shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from junitparser import JUnitXml
from otlp_sessions import Call, Said, write_golden, write_sessions

import spangrade as package
from spangrade.evaluator.statistics.repeats.rates import Branch, Flaky, Try, flaky

FIND, REFUND, CANCEL = Call("find_order", {"id": 1}), Call("refund", {"amount": 5}), Call("cancel_order")
RIGHT = (FIND, REFUND)


@pytest.fixture
def folder(spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three questions: one passes 3 of 3 times; one 1 of 3, by its steps; one 1 of 2, by an argument."""
    monkeypatch.chdir(tmp_path)
    reference = [{"tool_name": call.name, "input_arguments": call.arguments} for call in RIGHT]
    write_golden(
        tmp_path / "golden.json",
        *(
            {"id": name, "user_inputs": [name], "reference_tool_interactions": reference}
            for name in ("always", "steps", "argument", "once")
        ),
    )
    calls = {
        "always-1": RIGHT, "always-2": RIGHT, "always-3": (FIND, REFUND, FIND),
        "steps-1": RIGHT, "steps-2": (FIND, CANCEL), "steps-3": (FIND,),
        "argument-1": RIGHT, "argument-2": (FIND, Call("refund", {"amount": 6})),
        "once-1": RIGHT,
    }  # fmt: skip
    sessions = [(name, [Said(name.partition("-")[0], calls=made)]) for name, made in calls.items()]
    write_sessions(tmp_path / "spans.jsonl", sessions)
    return tmp_path


STEPS = "step 3: refund (1 of 1 passed), cancel_order (0 of 1 passed), the end (0 of 1 passed)"
ARGUMENT = 'call 2: refund {"amount":5} (1 of 1 passed), refund {"amount":6} (0 of 1 passed)'


def test_sessions_of_another_version_repeat_nothing(folder: Path, spangrade: Spangrade) -> None:
    """Version 1 passes both times and version 2 neither: no question is flaky, each version has its rate."""
    found = "argument"
    for version, made in (("1", RIGHT), ("2", (FIND,))):
        sessions = [(f"{version}-{n}", [Said(found, calls=made)]) for n in range(2)]
        write_sessions(folder / f"{version}.jsonl", sessions, version=version)
    spans = ("--spans", "1.jsonl", "--spans", "2.jsonl")
    done = spangrade("grade", "golden.json", *spans, "--format", "json", "--out", "out")
    repeats: Any = json.loads("\n".join(done.out))["repeats"]
    assert (repeats["questions"], repeats["sessions"], repeats["versions"], repeats["models"]) == (1, 4, 2, 1)
    assert [(one["k"], one["pass_hat_k"]["mean"]) for one in repeats["rates"]] == [(1, 0.5), (2, 0.5)]
    assert repeats["flaky"] == []
    summary = (folder / "out/summary.md").read_text(encoding="utf-8")
    assert "1 question with 4 sessions of 2 versions, each apart" in summary


@pytest.mark.exhaustive
def test_sessions_with_another_prompt_repeat_nothing_and_each_prompt_can_be_chosen(
    folder: Path, spangrade: Spangrade
) -> None:
    for prompt, made in (("p1", RIGHT), ("p2", (FIND,))):
        sessions = [(f"{prompt}-{n}", [Said("argument", calls=made)]) for n in range(2)]
        write_sessions(folder / f"{prompt}.jsonl", sessions, prompt=prompt)
    spans = ("--spans", "p1.jsonl", "--spans", "p2.jsonl")
    done = spangrade("grade", "golden.json", *spans, "--format", "json", "--out", "out")
    repeats: Any = json.loads("\n".join(done.out))["repeats"]
    assert (repeats["questions"], repeats["sessions"], repeats["prompts"], repeats["flaky"]) == (1, 4, 2, [])
    assert "of 2 prompts, each apart" in (folder / "out/summary.md").read_text(encoding="utf-8")
    trend: Any = json.loads("\n".join(spangrade("trend", "passed", "--by", "prompt", "--format", "json").out))
    assert [(one["key"], one["sessions"], one["mean"]) for one in trend["points"]] == [
        ("p1", 2, 1),
        ("p2", 2, 0),
    ]
    worse = ("compare", "--by", "prompt", "p1", "p2", "--fail-if", "regressed > 0")
    assert (spangrade(*worse).code, spangrade(*worse[:3], "p1", "p1", *worse[5:]).code) == (1, 0)
    for prompt, passed in (("p1", 2), ("p2", 0)):
        spangrade("grade", "golden.json", "--where", f"prompt:{prompt}", "--run", prompt)
        query = f"SELECT verdict FROM verdicts JOIN runs USING (run_id) WHERE name = '{prompt}' "
        found = spangrade("sql", f"{query} AND session_id IS NOT NULL", "--format", "json")
        verdicts = [one["verdict"] for one in json.loads("\n".join(found.out))]
        assert (len(verdicts), verdicts.count("passed")) == (2, passed)


def test_the_json_has_rates_and_flaky_questions_with_the_step_at_which_they_part(
    folder: Path, spangrade: Spangrade
) -> None:
    done = spangrade("grade", "golden.json", "--spans", "spans.jsonl", "--format", "json")
    repeats: Any = json.loads("\n".join(done.out))["repeats"]
    at, hat = (1 + 2 / 3) / 2, (1 + 0) / 2
    first = {"mean": pytest.approx((1 + 1 / 3) / 2), "low": None, "high": None}
    assert repeats["rates"] == [
        {"k": 1, "questions": 2, "pass_at_k": first, "pass_hat_k": first},
        {
            "k": 2,
            "questions": 2,
            "pass_at_k": {"mean": pytest.approx(at), "low": None, "high": None},
            "pass_hat_k": {"mean": pytest.approx(hat), "low": None, "high": None},
        },
        {
            "k": 3,
            "questions": 2,
            "pass_at_k": {"mean": 1.0, "low": None, "high": None},
            "pass_hat_k": {"mean": 0.5, "low": None, "high": None},
        },
    ]
    assert (repeats["questions"], repeats["sessions"], repeats["undecided"]) == (3, 8, 0)
    assert [(one["question"], one["passed"], one["sessions"]) for one in repeats["flaky"]] == [
        ("steps", 1, 3),
        ("argument", 1, 2),
    ]
    assert repeats["flaky"][0]["branches"] == [
        {"name": "refund", "sessions": 1, "passed": 1},
        {"name": "cancel_order", "sessions": 1, "passed": 0},
        {"name": "the end", "sessions": 1, "passed": 0},
    ]


def test_every_report_shows_them(folder: Path, spangrade: Spangrade) -> None:
    done = spangrade("grade", "golden.json", "--spans", "spans.jsonl", "--out", "out")
    printed = "\n".join(done.out)
    line = "3 questions with 8 sessions; an interval needs 20 questions"
    assert f"repeats: {line}" in printed
    assert "flaky: 2 (steps, argument)" in printed
    markdown = (folder / "out/summary.md").read_text()
    assert "| `3` | `100.0%` | `50.0%` | `2` |" in markdown
    assert f"| `steps` | `1 of 3` | `{STEPS}` |" in markdown
    assert f"| `argument` | `1 of 2` | `{ARGUMENT}` |" in markdown
    (suite,) = JUnitXml.fromfile(str(folder / "out/junit.xml"))
    properties = {one.name: one.value for one in suite.properties()}
    assert (properties["pass@3"], properties["pass^3"]) == ("100.0%", "50.0%")
    assert properties["flaky"] == "steps (1 of 3); argument (1 of 2)"
    html = (folder / "out/report.html").read_text()
    assert line in html
    assert STEPS in html
    assert json.loads((folder / "out/results.json").read_text())["repeats"]["questions"] == 3


def test_twenty_questions_have_intervals_and_what_is_undecided_counts_as_not_passed(
    tmp_path: Path,
) -> None:
    questions = [
        {"id": f"q{n}", "user_inputs": [f"q{n}"], "reference_tool_interactions": [{"tool_name": "refund"}]}
        for n in range(20)
    ]
    questions[0] = {"id": "q0", "user_inputs": ["q0"], "reference_state_variables": {"a": 1}}
    write_golden(tmp_path / "golden.json", *questions)
    sessions = [(f"{m}-{n}", [Said(f"q{n}", calls=[REFUND])]) for m in range(2) for n in range(20)]
    spans = write_sessions(tmp_path / "spans.jsonl", sessions)
    run = package.open(tmp_path / "db.duckdb").grade(tmp_path / "golden.json", spans=spans)
    assert run.repeats is not None
    assert (run.repeats.questions, run.repeats.sessions) == (20, 40)
    assert run.repeats.flaky == ()
    both = run.repeats.rates[1]
    assert (
        both.pass_hat_k.mean == 1 - len({v.question_id for v in run.sessions if v.verdict != "passed"}) / 20
    )
    assert both.pass_hat_k.low is not None
    assert both.pass_hat_k.low < both.pass_hat_k.mean < (both.pass_hat_k.high or 0.0) <= 1.0
    assert run.repeats.undecided == sum(v.verdict == "inconclusive" for v in run.sessions) > 0


def test_a_run_without_repeats_has_none(folder: Path, spangrade: Spangrade) -> None:
    spangrade("import", "spans.jsonl")
    run = package.open(folder / "spangrade.duckdb").grade(
        folder / "golden.json", select=package.Selection(sessions=["always-1", "steps-1"])
    )
    assert run.repeats is None
    assert "repeats" not in run.to_json()


def test_what_did_not_differ_is_not_named() -> None:
    same = [
        Try(passed=True, reason="", path=("a",), calls=()),
        Try(passed=False, reason="too slow", path=("a",), calls=()),
    ]
    assert flaky("q", same) == Flaky("q", 2, 1, "", None, (), "too slow")
    unknown = [one._replace(path=None, calls=None) for one in same]
    assert flaky("q", unknown) == Flaky("q", 2, 1, "", None, (), "too slow")
    assert flaky("q", same[:1] * 2) is None
    longer = [same[0]._replace(path=("a", "b")), *same]
    parted = flaky("q", longer)
    assert parted is not None
    assert parted.branches == (Branch("the end", 2, 1), Branch("b", 1, 1))


def test_a_question_with_many_sessions_is_read_in_part_and_counted_whole(tmp_path: Path) -> None:
    write_golden(
        tmp_path / "golden.json",
        {"id": "q", "user_inputs": ["q"], "reference_tool_interactions": [{"tool_name": "refund"}]},
    )
    sessions = [(f"s{n:03}", [Said("q", calls=[REFUND] if n < 60 else [CANCEL])]) for n in range(112)]
    spans = write_sessions(tmp_path / "spans.jsonl", sessions)
    run = package.open(tmp_path / "db.duckdb").grade(tmp_path / "golden.json", spans=spans)
    assert run.repeats is not None
    (found,) = run.repeats.flaky
    assert (found.sessions, found.passed) == (112, 60)
    assert found.branches == (Branch("refund", 50, 50), Branch("cancel_order", 50, 0))
