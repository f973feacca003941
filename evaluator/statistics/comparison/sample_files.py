"""The samples that a comparison names: runs of a database, conditions on sessions, files of `grade --out`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, cast

import orjson
from pydantic import BaseModel, Field, ValidationError, model_validator

from spangrade.evaluator.derive.sync.workers import few_collections
from spangrade.evaluator.grading.run_list import find_run_id, newest_of_name, refuse_itself
from spangrade.evaluator.statistics.comparison.graded import Graded
from spangrade.evaluator.statistics.comparison.sample import PASSED, Measured, Sample, passed, undecided
from spangrade.evaluator.statistics.comparison.stored_sample import (
    Expectations,
    is_condition,
    sample_of_condition,
    sample_of_run,
)
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.store import Store

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
            if outcome.outcome == "score":
                values.setdefault(metric, {}).setdefault(session.key, []).append(cast("float", outcome.value))
            elif outcome.outcome != "not_applicable":
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
        stored_as=details.run_id or str(folder.resolve()),
        rules=frozenset({details.rules}),
    )


class _Details(NamedTuple):
    """What results.json has of a run: nothing where it does not have it."""

    metrics: dict[str, Measured] = {}  # noqa: RUF012 (never written to)
    questions: dict[str, str] = {}  # noqa: RUF012
    judges: tuple[str, ...] = ()
    run_id: str | None = None
    rules: str | None = None


# Beyond it the squares that intervals need are infinite.
_Number = Annotated[float, Field(strict=True, ge=-1e150, le=1e150)]
_Count = Annotated[int, Field(strict=True, ge=0)]


class _Metric(BaseModel):
    """A metric as results.json describes it."""

    higher_is_better: bool | None
    lowest: _Number | None
    highest: _Number | None
    unit: str
    threshold: _Number | None
    version: str | None


class _Judge(BaseModel):
    model: str = ""
    calls: _Count = 0
    cache_hits: _Count = 0


class _Results(BaseModel):
    """What a comparison reads of results.json."""

    measured: dict[str, _Metric] = {}
    questions: dict[str, Any] = {}
    judge: _Judge | None = None
    run_id: str | None = None
    rules: str | None = None


class _Outcome(BaseModel):
    outcome: str
    value: _Number | None = None

    @model_validator(mode="after")
    def _score_has_a_value(self) -> Self:
        if self.outcome == "score" and self.value is None:
            raise ValueError("a score without a value")
        return self


class _Line(BaseModel):
    """What a comparison reads of a line of sessions.jsonl."""

    session_id: str | None
    question_id: str | None
    verdict: str
    reason: str
    metrics: dict[str, _Outcome]
    trajectory: list[str] | None = None


def _details(file: Path) -> _Details:
    """Return what a run records of its metrics, questions and judge."""
    if not file.is_file():
        return _Details()
    try:
        results = _Results.model_validate(orjson.loads(file.read_bytes()))
        questions = {name: canonical(one) for name, one in results.questions.items()}
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: expected the file that `grade --out` wrote{_place(error)}") from error
    metrics = {
        name: Measured(
            one.higher_is_better,
            (-inf if one.lowest is None else one.lowest, inf if one.highest is None else one.highest),
            one.unit,
            (one.threshold,),
            (one.version,),
        )
        for name, one in results.measured.items()
    }
    judge = results.judge
    judges = (judge.model,) if judge and judge.calls + judge.cache_hits else ()
    return _Details(metrics, questions, judges, results.run_id, results.rules)


def _lines(file: Path) -> Iterator[tuple[Graded | str, Mapping[str, _Outcome]]]:
    """Yield each session with its outcomes by metric, and the id of each question that none answers."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                value = _Line.model_validate(orjson.loads(line))
            except (ValueError, RecursionError) as error:
                place = _place(error)
                raise InputError(
                    f"{file}:{number}: expected a line that `grade --out` wrote{place}"
                ) from error
            path = None if value.trajectory is None else tuple(value.trajectory)
            if value.session_id is None:
                yield str(value.question_id), value.metrics
            else:
                graded = Graded(value.session_id, value.question_id, value.verdict, value.reason, path)
                yield graded, value.metrics


def _place(error: Exception) -> str:
    """Return where in a file a value is that is not as expected."""
    if not isinstance(error, ValidationError):
        return ""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    return f": {'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}"


def is_file_of_run(name: str) -> bool:
    """Return whether a text is the path of what `grade --out` wrote."""
    return folder_of_run(name) is not None


def selects_sessions(name: str) -> bool:
    """Return whether a text is a condition on sessions, for which a database must be open with `confined`."""
    return not is_file_of_run(name) and is_condition(name)


def samples_of(store: Store | None, first: str | Sample, second: str) -> tuple[Sample, Sample]:
    """Return the samples that two texts name; without a store both must be files of `grade --out`.

    Raises InputError if there is no such run or session, if both are one run, and for two conditions that
    some, but not all, sessions meet both: a session cannot be compared with itself and with others at once.
    """
    expected = Expectations()
    with few_collections():
        samples = (
            first if isinstance(first, Sample) else _sample_of(store, first, expected),
            _sample_of(store, second, expected),
        )
    names = (first.label if isinstance(first, Sample) else first), second
    refuse_itself(samples[0].stored_as, samples[1].stored_as, names)
    if isinstance(first, str) and selects_sessions(first) and selects_sessions(second):
        _check_overlap(*samples)
    return samples


def sample_named(store: Store | None, name: str) -> Sample:
    """Return the sample that a text names, as it is now. Raises InputError as `samples_of` does."""
    with few_collections():
        return _sample_of(store, name, Expectations())


def _sample_of(store: Store | None, name: str, expected: Expectations) -> Sample:
    folder = folder_of_run(name)
    if store is not None and folder is None:
        if is_condition(name):
            return sample_of_condition(store, name, expected)
        return sample_of_run(store, find_run_id(store, name), expected)
    if store is not None and (run_id := newest_of_name(store, name)):
        return sample_of_run(store, run_id, expected)
    if folder is None:
        raise InputError(f"{name}: expected a folder of `grade --out`, or a run of a database")
    return sample_of_files(name, folder)


def _check_overlap(first: Sample, second: Sample) -> None:
    shared = first.session_ids & second.session_ids
    if shared and first.session_ids != second.session_ids:
        raise InputError(
            f"compare: {len(shared)} sessions meet both {first.label!r} and {second.label!r}, among them "
            f"{min(shared)}: expected conditions that no session, or every one, meets both"
        )
