"""Comparisons of two runs as values: what is found, said and decided where one value of a side is another."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from cases import as_json, cases, check
from pydantic import TypeAdapter
from rich.console import Console

from spangrade import InputError
from spangrade.evaluator.reports.comparison import comparison_json, comparison_markdown, comparison_tables
from spangrade.evaluator.reports.comparison_head import head_of_comparison
from spangrade.evaluator.reports.flips import flips_of, sessions_of
from spangrade.evaluator.reports.headline import shown
from spangrade.evaluator.statistics.comparison.compare import Comparison, compare
from spangrade.evaluator.statistics.comparison.condition import (
    Compared,
    at_least_compared,
    judge,
    parse_condition,
)
from spangrade.evaluator.statistics.comparison.graded import Graded
from spangrade.evaluator.statistics.comparison.sample import Sample, passed, undecided

pytest.importorskip("scipy", reason="needs the extra `stats`")

SAMPLE: TypeAdapter[Sample] = TypeAdapter(Sample)
VERDICTS = {"p": "passed", "f": "failed", "i": "inconclusive", "b": "broken", "u": "unmatched"}
REASONS = {"f": "tools:recall: 0.5, expected >= 0.9", "i": "no reply was recorded", "b": "cost: no price"}


def sample(given: dict[str, Any]) -> Sample:
    """Return a side: the verdicts of each question's sessions as letters, values by metric and question."""
    graded = [
        Graded(
            f"{given['label']}-{question}-{number}",
            None if question.startswith("s") else question,
            VERDICTS[verdict],
            REASONS.get(verdict, ""),
            tuple(given["paths"].get(question, ["shop", "look_up"])),
        )
        for question, verdicts in given["verdicts"].items()
        for number, verdict in enumerate(verdicts)
    ]
    values = {
        name: {
            key: tuple(value for value in each if value is not None)
            for key, each in by_question.items()
            if any(value is not None for value in each)
        }
        for name, by_question in given["values"].items()
    }
    unknown = {
        name: {key: each.count(None) for key, each in by_question.items() if None in each}
        for name, by_question in given["values"].items()
    }
    rest = SAMPLE.validate_python(
        {"label": given["label"], "run_id": given["label"], "graded": [], "values": {}, "unknown": {}}
        | {"questions": {}, **given["rest"]}
    )
    return Sample(
        **{name: getattr(rest, name) for name in rest.__dataclass_fields__ if name not in SIDES},
        graded=tuple(graded),
        values={"passed": passed(graded), **values},
        unknown={"passed": undecided(graded, rest.unanswered), **unknown},
    )


SIDES = ("graded", "values", "unknown")


def printed(comparison: Comparison, gates: Any) -> list[str]:
    console = Console(file=io.StringIO(), width=250, color_system=None)
    console.print(comparison_tables(comparison, gates))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines() if line.strip(" ┃┏━┓│└─┘┡╇┩┴┳")]


def rounded(found: Any) -> Any:
    """Return what was found to six digits: libraries of numbers differ beyond."""
    if isinstance(found, float):
        return float(f"{found:.6g}")
    if isinstance(found, dict):
        return {key: rounded(value) for key, value in found.items()}
    return [rounded(one) for one in found] if isinstance(found, list) else found


def compared(given: Any) -> Any:
    try:
        conditions = [parse_condition(text) for text in given["conditions"]]
        comparison = compare(
            sample(given["first"]),
            sample(given["second"]),
            given["only"],
            named=[one.metric for one in conditions if hasattr(one, "metric")],
            allow_changed=given["allow_changed"],
        )
        results = (*(judge(one, comparison) for one in conditions), at_least_compared(0.5, comparison))
    except InputError as error:
        return {"refused": str(error)}
    found = Compared(comparison, results)
    return {
        "json": rounded(as_json(comparison_json(comparison, results))),
        "text": printed(comparison, results),
        "head": shown(head_of_comparison(found, found.exit_code())).plain.splitlines(),
        "markdown": comparison_markdown(comparison, results).splitlines(),
        "exit": [int(found.exit_code()), int(found.exit_code(inconclusive_ok=True))],
        "narrowed": rounded(narrowed(sample(given["first"]))),
        "flips": [sessions_of(flip) for flip in flips_of(comparison)],
    }


def narrowed(one: Sample) -> Any:
    """Return what is known of a part of the questions, and of a part of the sessions."""
    questions, sessions = sorted(one.questions)[::2], [graded.session_id for graded in one.graded[::3]]
    parts = [one.of_questions(questions), one.of_sessions(sessions)]
    fields = ("values", "unknown", "questions", "unanswered", "replayed")
    shown = [{name: as_json(getattr(part, name)) for name in fields} for part in parts]
    return [{**each, "sessions": sorted(part.session_ids)} for each, part in zip(shown, parts, strict=True)]


@pytest.mark.parametrize(("file", "place"), cases("comparison"))
def test_a_comparison_says_what_its_runs_show(file: Path, place: str | None) -> None:
    check(file, place, compared)
