"""Conditions on the metadata of golden questions, and results by group."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import question
from command_line import Spangrade
from paths import SAMPLE

from spangrade import InputError
from spangrade.converters.datasets.golden import GoldenDataset
from spangrade.evaluator.grading.metadata import NO_QUESTION, Groups, groups_of, parse_where

METADATA: dict[str, dict[str, Any]] = {
    "qa": {"complexity": "high", "priority": 1, "tags": ["refund", "vip"], "ok": True},
    "qb": {"complexity": "low", "priority": "1", "a.b": "dotted", "owner": {"team": "shop"}},
    "qc": {"priority": 2.5, "ok": False, "complexity": "très haute", "with space": None},
}
DATASET = GoldenDataset(
    golden_questions=tuple(
        question(name, id=name).model_copy(update={"metadata": metadata})
        for name, metadata in METADATA.items()
    )
)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("metadata.complexity = high", {"qa"}),
        ("metadata.complexity=high", {"qa"}),
        ("metadata.complexity != high", {"qb", "qc"}),
        ('metadata.complexity = "très haute"', {"qc"}),
        ("metadata.complexity = 'high' AND metadata.priority = 1", {"qa"}),
        ("metadata.priority = 1", {"qa", "qb"}),
        ("metadata.priority = '1'", {"qb"}),
        ("metadata.priority = 1.0", {"qa"}),
        ("metadata.priority = 2.5", {"qc"}),
        ("metadata.priority != 1 and metadata.ok = false", {"qc"}),
        ("metadata.ok = true", {"qa"}),
        ("metadata.ok != true", {"qb", "qc"}),
        ("metadata.tags = refund", {"qa"}),
        ("metadata.a.b = dotted", {"qb"}),
        ("metadata.owner.team = shop", {"qb"}),
        ('metadata."with space" = null', {"qc"}),
    ],
)
def test_conditions_choose_questions(text: str, chosen: set[str]) -> None:
    assert {one.id for one in parse_where(text).chosen(DATASET).golden_questions} == chosen


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected metadata.KEY, found the end in ''"),
        ("complexity = high", "expected metadata.KEY, found \"complexity = high\" in 'complexity = high'"),
        ("metadata.complexity", "expected = or !=, found the end in 'metadata.complexity'"),
        ("metadata.complexity > 1", "expected = or !=, found \"> 1\" in 'metadata.complexity > 1'"),
        (
            "metadata.complexity =",
            "expected a word, a number, or text in quotes, found the end in 'metadata.complexity ='",
        ),
        (
            "metadata.complexity == high",
            "expected a word, a number, or text in quotes, found \"= high\" in 'metadata.complexity == high'",
        ),
        (
            "metadata.ok = true or metadata.ok = false",
            'expected "and", found "or metadata.ok = false" in \'metadata.ok = true or metadata.ok = false\'',
        ),
        (
            "metadata.ok = true and",
            'expected "and", found "and" in \'metadata.ok = true and\'',
        ),
        (
            "metadata.complexty = high",
            'no golden question has "metadata.complexty"; did you mean "metadata.complexity"?',
        ),
        ("metadata.ok = maybe", "it holds for no golden question"),
    ],
)
def test_any_other_condition_is_refused_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_where(text).chosen(DATASET)
    assert str(refused.value) == f"select.where: {problem}"


def test_questions_are_grouped_by_a_key() -> None:
    groups = groups_of("metadata.ok", DATASET)
    assert [groups.of(name) for name in ("qa", "qb", "qc", None)] == [
        "true",
        "(no value)",
        "false",
        "(no question)",
    ]
    for text, problem in (
        ("ok", "expected metadata.KEY, found 'ok'"),
        ("metadata.okay", 'no golden question has "metadata.okay"; did you mean "metadata.ok"?'),
    ):
        with pytest.raises(InputError) as refused:
            groups_of(text, DATASET)
        assert str(refused.value) == f"group_by: {problem}"


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    """Return the sample's golden dataset, in which each question has a topic but the last."""
    golden = json.loads((SAMPLE / "customer_service_golden.json").read_bytes())
    for number, one in enumerate(golden["golden_questions"][:-1]):
        one["metadata"] = {"topic": "odd" if number % 2 else "even"}
    golden["golden_questions"][-1]["metadata"] = {}
    file = tmp_path / "golden.json"
    file.write_text(json.dumps(golden))
    return file


def test_a_grade_filters_and_groups_by_metadata(spangrade: Spangrade, tmp_path: Path, tagged: Path) -> None:
    command = ("grade", tagged, "--db", tmp_path / "s.duckdb", "--spans", SAMPLE / "spans.otlp.jsonl")
    done = spangrade(*command, "--group-by", "metadata.topic", "--out", tmp_path / "out", "--format", "json")
    counts = {"failed": 0, "inconclusive": 0, "broken": 0, "unmatched": 0, "unanswered_questions": 0}
    groups = {
        "(no value)": {"sessions": 1, "passed": 1, **counts},
        "even": {"sessions": 2, "passed": 2, **counts},
        "odd": {"sessions": 1, "passed": 1, **counts},
    }
    printed = json.loads("\n".join(done.out))
    assert (done.code, printed["group_by"], printed["groups"]) == (0, "metadata.topic", groups)
    summary = json.loads((tmp_path / "out" / "eval_summary.json").read_bytes())
    assert summary["overall_summary"]["groups"] == groups
    assert "| `even` | 2 | 2 | 0 | 0 | 0 | 0 | 0 |" in (tmp_path / "out" / "summary.md").read_text()
    table = spangrade(*command, "--group-by", "metadata.topic").out
    assert any("even" in line and line.split("│")[2:4] == ["        2 ", "      2 "] for line in table)

    chosen = spangrade(*command, "--where", "metadata.topic = odd", "--out", tmp_path / "odd")
    assert (chosen.code, chosen.out[0]) == (0, "1 session: 1 passed")
    summary = json.loads((tmp_path / "odd" / "eval_summary.json").read_bytes())
    assert [one["runs"] for one in summary["per_question_summary"]] == [1]
    refused = spangrade(*command, "--where", "metadata.topic > 1")
    problem = "spangrade: --where: expected = or !=, found \"> 1\" in 'metadata.topic > 1'"
    assert refused == (2, [], [problem])


def test_which_question_a_session_answers_can_be_chosen(
    spangrade: Spangrade, tmp_path: Path, tagged: Path
) -> None:
    command = ("grade", tagged, "--db", tmp_path / "s.duckdb", "--spans", SAMPLE / "spans.otlp.jsonl")
    golden = json.loads(tagged.read_bytes())
    first, second = (one["id"] for one in golden["golden_questions"][:2])
    done = spangrade(*command, "--answers", f"conversation-1={second}", "--format", "json")
    by_session = {one["session_id"]: one for one in json.loads("\n".join(done.out))["grades"]}
    assert (done.code, by_session["conversation-1"]["question_id"]) == (1, second)
    assert by_session[None]["question_id"] == first
    for option, problem in (
        ("conversation-1", "--answers: expected SESSION=ID, found 'conversation-1'"),
        ("conversation-1=nothing", '--answers conversation-1: no golden question has the id "nothing"'),
        (f"c=1={first}", "--answers: no session 'c=1' to grade: `spangrade sessions` lists them"),
    ):
        refused = spangrade(*command, "--answers", option)
        assert (refused.code, refused.err) == (2, [f"spangrade: {problem}"])
    twice = spangrade(*command, "--answers", f"a={first}", "--answers", f"a={second}")
    assert twice.err == [f"spangrade: --answers a: two values, {first} and {second}; expected one"]


def test_a_result_is_in_the_group_of_its_question_by_its_whole_id() -> None:
    groups = Groups("metadata.topic", {"": "of no name", "q1": "refunds"})
    assert [groups.of(one) for one in (None, "", "q1", "q2")] == [
        NO_QUESTION,
        "of no name",
        "refunds",
        NO_QUESTION,
    ]
