"""Scores and labels that people and programs give, one or in bulk: of many, all are stored or none."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import nanoarrow as na

from spangrade.converters.datasets.files import csv_rows
from spangrade.evaluator.grading.stored_sessions import find_session_id
from spangrade.evaluator.metrics.external import LABEL, ExternalScore, Source, external_scores, key_of
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_rows
from spangrade.tracer.store.sql import statement

_SPAN = {"session_id": na.string(), "span_id": na.string()}
COLUMNS = ("session_id", "name", "value", "by", "note", "span_id")
_MAX_PROBLEMS = 20  # what fits on a screen


def scores_of(
    scores: Mapping[str, float | bool | str], *, turn: int | None, by: str | None, note: str
) -> list[ExternalScore]:
    """Return scores by name as they are stored, of no session yet.

    A value is a number, true or false (1 and 0), or a text, which has no number. `by` names the person who
    gives them; without it they are a program's. Raises InputError for a name or value that cannot be stored.
    """
    if not scores:
        raise InputError("which score? Expected at least one name and value")
    _check_author(by)
    source = Source.PROGRAM if by is None else Source.PERSON
    given = []
    for name, value in scores.items():
        number, label = _value(name, value)
        one = ExternalScore("", score_name(name), number, source, 0, label, author=by, note=note, turn=turn)
        given.append(one)
    return given


def label_of(verdict: Literal["pass", "fail"], *, by: str, metric: str | None, note: str) -> ExternalScore:
    """Return a person's verdict as it is stored, of no session yet. Raises InputError for another verdict."""
    if verdict not in ("pass", "fail"):
        raise InputError(f"the label is {verdict!r}: expected pass or fail")
    _check_author(by)
    passed = verdict == "pass"
    name = LABEL if metric is None else score_name(metric)
    return ExternalScore("", name, float(passed), Source.PERSON, 0, verdict, passed, author=by, note=note)


def of_session(
    store: Store, session_id: str, scores: Sequence[ExternalScore], at: datetime | None
) -> list[ExternalScore]:
    """Return scores as those of a stored session, given `at` a time, by default now.

    Raises InputError if there is no such session, turn or span.
    """
    known_id = find_session_id(store, session_id)
    query = "SELECT turns FROM derived.sessions WHERE session_id = $id"
    turns = int(store.query(query, {"id": known_id})[0][0])
    if unknown := [one.turn for one in scores if one.turn is not None and not 1 <= one.turn <= turns]:
        raise InputError(f'session "{known_id}" has no turn {unknown[0]}: expected 1 to {turns}')
    given = [score._replace(session_id=known_id) for score in scores]
    if (lacking := next(without_span(store, given), None)) is not None:
        raise InputError(lacking[1])
    return at_time(store, given, at)


def without_span(store: Store, scores: Sequence[ExternalScore]) -> Iterator[tuple[int, str]]:
    """Yield the place of each score on a span that its session does not have, and the error."""
    if not (wanted := {(one.session_id, *one.evidence) for one in scores if one.evidence}):
        return
    query = statement("spans_of_sessions", "spangrade.evaluator.review.scores")
    found = set(store.query(query, incoming=arrow_rows(list(wanted), _SPAN)))
    for place, one in enumerate(scores):
        if one.evidence and (one.session_id, *one.evidence) not in found:
            yield place, f'session "{one.session_id}" has no span "{one.evidence[0]}"'


def at_time(store: Store, scores: Sequence[ExternalScore], at: datetime | None) -> list[ExternalScore]:
    """Return scores of stored sessions as given `at` a time, by default now.

    What is given now replaces what was given before, though the clock was ahead then.
    """
    if at is not None:
        return [score._replace(time_ns=_nanoseconds(at)) for score in scores]
    stored = external_scores(store, list({score.session_id for score in scores}))
    known = {key_of(one): one.time_ns for given in stored.values() for one in given}
    now_ns = time.time_ns()
    return [score._replace(time_ns=max(now_ns, known.get(key_of(score), 0))) for score in scores]


def on_span(score: ExternalScore, span_id: str | None) -> ExternalScore:
    """Return a score as that of one span of its session; without a span as it is."""
    return score if span_id is None else score._replace(evidence=(span_id,))


def value_of(text: str) -> float | bool | str:
    """Return the value of a score that is written as a text: true, false, a number or a word."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        return text


def _check_author(by: str | None) -> None:
    if by is not None and not by.strip():
        raise FieldError("by", "expected the name of a person")


def _nanoseconds(moment: datetime) -> int:
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(zoned.timestamp() * 1_000_000) * 1000


def score_name(name: str) -> str:
    """Return a name without space around it. Raises InputError if it cannot be that of a score."""
    if not name.strip() or any(character in name for character in "<>=\n"):
        raise InputError(f"the name of the score is {name!r}: expected a text without <, > and =")
    return name.strip()


def _value(name: str, value: float | bool | str) -> tuple[float | None, str | None]:
    """Return a value's number and its label."""
    if isinstance(value, str):
        if not value.strip():
            raise InputError(f'score "{name}": expected a number, true, false or a text')
        return None, value.strip()
    if not isinstance(value, int | float):
        raise InputError(f'score "{name}": expected a number, true, false or a text, found {value!r}')
    if not math.isfinite(value):
        raise InputError(f'score "{name}": expected a finite number, found {value}')
    return float(value), None


class GivenScore(NamedTuple):
    """A label or a score: the session as it was written, the score of no session yet, and its place."""

    session: str
    score: ExternalScore
    where: str


def rows_of_file(path: Path) -> list[GivenScore]:
    """Return the rows of a CSV. Raises InputError with one line for each that cannot be used."""
    with csv_rows(path) as reader:
        unknown = [name for name in reader.fieldnames or () if name not in COLUMNS]
        missing = {"session_id", "value"} - set(reader.fieldnames or ())
        if unknown or missing:
            what = f'unknown column "{unknown[0]}"' if unknown else f'no column "{min(missing)}"'
            raise InputError(f"{path}: {what}; expected {','.join(COLUMNS)}")
        return rows_of(reader, f"{path}: row {{}}")


def rows_of(values: Iterable[Mapping[str, Any]], place: str = "row {}") -> list[GivenScore]:
    """Return objects with the keys of `COLUMNS` as rows; a value that is missing, None or blank is not given.

    The value `pass` or `fail` is the label of a person, any other the score. Raises InputError with one line
    for each row that cannot be used.
    """
    rows, problems = [], []
    for number, one in enumerate(values, 1):
        where = place.format(number)
        try:
            rows.append(_row({key: value for key, value in one.items() if value not in (None, "")}, where))
        except InputError as error:
            problems += [f"{where}: {line}" for line in error.lines]
    _refuse(problems)
    return rows


def of_sessions(store: Store, rows: Sequence[GivenScore], at: datetime | None) -> list[ExternalScore]:
    """Return the scores of rows as those of stored sessions, given `at` a time, by default now.

    Raises InputError with one line for each row whose session or span is not stored.
    """
    known = {row[0] for row in store.query("SELECT session_id FROM derived.sessions")}
    scores, problems = [], []
    for row in rows:
        try:
            session_id = row.session if row.session in known else find_session_id(store, row.session)
            scores.append(row.score._replace(session_id=session_id))
        except InputError as error:
            problems += [f"{row.where}: {line}" for line in error.lines]
    _refuse(problems)
    _refuse([f"{rows[place].where}: {what}" for place, what in without_span(store, scores)])
    return at_time(store, scores, at)


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        more = len(problems) - _MAX_PROBLEMS
        raise InputError(*problems[:_MAX_PROBLEMS], *([f"and {more} more"] if more > 0 else ()))


def _row(given: Mapping[str, Any], where: str) -> GivenScore:
    for key, value in given.items():
        if key is None:
            raise InputError("more cells than the header has columns")
        if key not in COLUMNS:
            raise InputError(f'unknown key "{key}"; expected {", ".join(COLUMNS)}')
        if key != "value" and not isinstance(value, str):
            raise InputError(f"{key}: expected a text, found {value!r}")
    for key in ("session_id", "value"):
        if key not in given:
            raise InputError(f"{key}: missing")
    name, by, note, value = given.get("name"), given.get("by"), given.get("note", ""), given["value"]
    if value in ("pass", "fail"):
        if by is None:
            raise InputError("by: missing: a label is the verdict of a person")
        score = label_of(value, by=by, metric=name, note=note)
    else:
        if name is None:
            raise InputError("name: missing: only the labels pass and fail need none")
        value = value_of(value) if isinstance(value, str) else value
        (score,) = scores_of({name: value}, turn=None, by=by, note=note)
    return GivenScore(given["session_id"], on_span(score, given.get("span_id")), where)
