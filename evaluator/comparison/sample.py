"""One side of a comparison: the verdicts and values of a run, from a database or from files of `--out`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from spangrade.evaluator.grading.policy import Verdict
from spangrade.evaluator.metrics import load_metrics
from spangrade.evaluator.run_list import find_run_id, newest_of_name
from spangrade.tracer.errors import InputError
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

PASSED = "passed"  # the share of sessions that passed, as a metric


class Graded(NamedTuple):
    """A session in a run, with the names of its trajectory, None if they are not recorded."""

    session_id: str
    question_id: str | None
    verdict: str
    reason: str
    trajectory: tuple[str, ...] | None = None

    @property
    def key(self) -> str:
        """What it is compared by: its question, else itself."""
        return self.session_id if self.question_id is None else self.question_id


class Measured(NamedTuple):
    """What a run records of a metric: its direction, its lowest and highest possible value, its version."""

    higher_is_better: bool | None
    bounds: tuple[float, float]
    unit: str
    threshold: float | None = None
    version: str | None = None


class Sample(NamedTuple):
    """The graded sessions of a run.

    `values` holds the values of each metric by question (by session without one), `inconclusive` how many
    outcomes of each metric have no value. `questions` maps the golden questions to the digests of their
    content, empty where that is not recorded.
    """

    label: str
    run_id: str
    graded: tuple[Graded, ...]
    values: Mapping[str, Mapping[str, tuple[float, ...]]]
    inconclusive: Mapping[str, int]
    metrics: Mapping[str, Measured]
    questions: Mapping[str, str]

    def by_key(self) -> dict[str, list[Graded]]:
        """Return the sessions by question, or by session without one."""
        found: dict[str, list[Graded]] = {}
        for session in self.graded:
            found.setdefault(session.key, []).append(session)
        return found


def is_folder_of_run(text: str) -> bool:
    """Return whether a text is the path of a folder that `grade --out` wrote."""
    return (Path(text) / "sessions.jsonl").is_file()


def sample_of(store: Store | None, text: str) -> Sample:
    """Return the sample that a text names: a run of the database, else a folder of `grade --out`.

    Raises InputError if there is neither.
    """
    if not is_folder_of_run(text):
        if store is None:
            raise InputError(f"{text}: expected a folder of `grade --out`, or a run of a database")
        return _sample_of_run(store, find_run_id(store, text))
    if store is not None and (run_id := newest_of_name(store, text)):
        return _sample_of_run(store, run_id)
    return _sample_of_files(Path(text))


def _sample_of_run(store: Store, run_id: str) -> Sample:
    run = {"run_id": run_id}
    ((name,),) = store.query("SELECT name FROM runs WHERE run_id = $run_id", run)
    graded = tuple(
        Graded(session_id, question_id, verdict, reason, None if names is None else tuple(names))
        for session_id, question_id, verdict, reason, names in store.query(
            statement("graded_sessions", "spangrade.evaluator.comparison"), run
        )
    )
    values: dict[str, dict[str, tuple[float, ...]]] = {}
    for metric, key, numbers in store.query(statement("values", "spangrade.evaluator.comparison"), run):
        values.setdefault(metric, {})[key] = tuple(numbers)
    unknown = store.query(
        "SELECT metric, count(*) FROM scores WHERE run_id = $run_id AND session_id IS NOT NULL "
        "AND outcome NOT IN ('score', 'not_applicable') GROUP BY metric",
        run,
    )
    measured = store.query(
        "SELECT metric, higher_is_better, lowest, highest, unit, threshold, version FROM run_metrics "
        "WHERE run_id = $run_id",
        run,
    )
    questions = store.query("SELECT question_id, digest FROM run_questions WHERE run_id = $run_id", run)
    return Sample(
        name or run_id[:8],
        run_id,
        graded,
        {PASSED: _passed(graded), **values},
        dict(unknown),
        {metric: Measured(better, (low, high), *rest) for metric, better, low, high, *rest in measured},
        dict(questions),
    )


def _sample_of_files(folder: Path) -> Sample:
    graded: list[Graded] = []
    values: dict[str, dict[str, list[float]]] = {}
    inconclusive: dict[str, int] = {}
    for session, outcomes in _lines(folder / "sessions.jsonl"):
        graded.append(session)
        for metric, outcome in outcomes.items():
            if outcome.get("outcome") == "score":
                values.setdefault(metric, {}).setdefault(session.key, []).append(
                    _number(outcome.get("value"))
                )
            elif outcome.get("outcome") != "not_applicable":
                inconclusive[metric] = inconclusive.get(metric, 0) + 1
    return Sample(
        str(folder),
        str(folder),
        tuple(graded),
        {
            PASSED: _passed(graded),
            **{m: {key: tuple(each) for key, each in by_key.items()} for m, by_key in values.items()},
        },
        inconclusive,
        {},
        {},
    )


def _lines(file: Path) -> Iterator[tuple[Graded, Mapping[str, Any]]]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                value = orjson.loads(line)
                session_id, outcomes = value["session_id"], value["metrics"]
                graded = Graded(str(session_id), value["question_id"], value["verdict"], value["reason"])
                if session_id is not None:
                    yield graded, {str(metric): dict(outcome) for metric, outcome in outcomes.items()}
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
                raise InputError(f"{file}:{number}: expected a line that `grade --out` wrote") from error


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(value)
    return float(value)


def _passed(graded: tuple[Graded, ...] | list[Graded]) -> dict[str, tuple[float, ...]]:
    """Return which sessions passed (1) and failed (0), without those of another verdict."""
    values: dict[str, list[float]] = {}
    for session in graded:
        if session.verdict in (Verdict.PASSED, Verdict.FAILED):
            values.setdefault(session.key, []).append(float(session.verdict == Verdict.PASSED))
    return {key: tuple(each) for key, each in values.items()}


def measured(metric: str, *samples: Sample) -> Measured:
    """Return what is recorded of a metric by the samples, else what the installed metric of that name says.

    A metric that is in neither has no direction, and any bounds that its values allow.
    """
    if metric == PASSED:
        return Measured(True, (0.0, 1.0), "share")
    for sample in samples:
        if metric in sample.metrics:
            return sample.metrics[metric]
    return installed(metric)


def installed(metric: str) -> Measured:
    """Return what the installed metric of a name says; without one, no direction and any bounds."""
    found = load_metrics().get(metric.partition(":")[0])
    if found is None:
        return Measured(None, (-math.inf, math.inf), "number")
    return Measured(found.higher_is_better, found.bounds, found.unit)
