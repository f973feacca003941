"""Samples from files: the folder that `grade --out` wrote, or one of its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from spangrade.evaluator.statistics.comparison.sample import (
    PASSED,
    Graded,
    Measured,
    Sample,
    passed,
    undecided,
)
from spangrade.tracer.canonical_json import canonical
from spangrade.tracer.errors import InputError

SESSIONS = "sessions.jsonl"
_RESULTS = "results.json"
_FILES = (SESSIONS, _RESULTS)


def folder_of_run(text: str) -> Path | None:
    """Return the folder of `grade --out` that a text names, or a file in it; None for other texts."""
    path = Path(text)
    folder = path.parent if path.name in _FILES else path
    return folder if (folder / SESSIONS).is_file() else None


def sample_of_files(label: str, folder: Path) -> Sample:
    """Return the sessions of a run by its files. Raises InputError for a line that `grade` did not write."""
    graded: list[Graded] = []
    values: dict[str, dict[str, list[float]]] = {}
    unknown: dict[str, dict[str, int]] = {}
    unanswered: set[str] = set()
    for session, outcomes in _lines(folder / SESSIONS):
        if isinstance(session, str):
            unanswered.add(session)
            continue
        graded.append(session)
        for metric, outcome in outcomes.items():
            if outcome["outcome"] == "score":
                values.setdefault(metric, {}).setdefault(session.key, []).append(outcome["value"])
            elif outcome["outcome"] != "not_applicable":
                of_metric = unknown.setdefault(metric, {})
                of_metric[session.key] = of_metric.get(session.key, 0) + 1
    by_metric = {
        metric: {key: tuple(each) for key, each in by_key.items()} for metric, by_key in values.items()
    }
    details = _details(folder / _RESULTS)
    return Sample(
        label,
        str(folder),
        tuple(graded),
        {PASSED: passed(graded), **by_metric},
        {PASSED: undecided(graded, unanswered), **unknown},
        details.metrics,
        details.questions,
        unanswered=frozenset(unanswered),
        judges=details.judges,
    )


class _Details(NamedTuple):
    """What results.json has of a run: nothing where it does not have it."""

    metrics: dict[str, Measured] = {}  # noqa: RUF012 (never written to)
    questions: dict[str, str] = {}  # noqa: RUF012
    judges: tuple[str, ...] = ()


def _details(file: Path) -> _Details:
    """Return what a run records of its metrics, questions and judge."""
    if not file.is_file():
        return _Details()
    try:
        value = orjson.loads(file.read_bytes())
        metrics = {
            str(name): Measured(
                one["higher_is_better"],
                (_bound(one["lowest"], -inf), _bound(one["highest"], inf)),
                str(one["unit"]),
                (one["threshold"],),
                (one["version"],),
            )
            for name, one in value.get("measured", {}).items()
        }
        questions = {name: canonical(one) for name, one in value.get("questions", {}).items()}
        judge = value.get("judge") or {}
        is_asked = judge.get("calls", 0) + judge.get("cache_hits", 0) > 0
        return _Details(metrics, questions, (str(judge["model"]),) if is_asked else ())
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{file}: expected the file that `grade --out` wrote") from error


def _bound(value: Any, without: float) -> float:
    return without if value is None else float(value)


def _lines(file: Path) -> Iterator[tuple[Graded | str, Mapping[str, Any]]]:
    """Yield each session with its outcomes by metric, and the id of each question that none answers."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                value = orjson.loads(line)
                outcomes = {metric: _checked(outcome) for metric, outcome in value["metrics"].items()}
                path = value.get("trajectory")
                graded = Graded(
                    str(value["session_id"]),
                    value["question_id"],
                    value["verdict"],
                    value["reason"],
                    None if path is None else tuple(map(str, path)),
                )
            except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
                raise InputError(f"{file}:{number}: expected a line that `grade --out` wrote") from error
            yield graded if value["session_id"] is not None else str(value["question_id"]), outcomes


def _checked(outcome: Any) -> Mapping[str, Any]:
    """Return an outcome. Raises TypeError or KeyError if it is none, or a score without a number."""
    value = outcome["value"] if outcome["outcome"] == "score" else 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(value)
    return outcome  # type: ignore[no-any-return]
