"""Labels and scores in bulk, as rows of a CSV or of a program: all of them are stored, or none."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from spangrade.evaluator.grading.session_list import find_session_id
from spangrade.evaluator.metrics.external import ExternalScore
from spangrade.evaluator.review.scores.given import (
    at_time,
    label_of,
    on_span,
    scores_of,
    value_of,
    without_span,
)
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.store import Store

COLUMNS = ("session_id", "name", "value", "by", "note", "span_id")
_MAX_PROBLEMS = 20  # what fits on a screen


class GivenScore(NamedTuple):
    """A label or a score: the session as it was written, the score of no session yet, and its place."""

    session: str
    score: ExternalScore
    where: str


def rows_of_file(path: Path) -> list[GivenScore]:
    """Return the rows of a CSV. Raises InputError with one line for each that cannot be used."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            unknown = [name for name in reader.fieldnames or () if name not in COLUMNS]
            missing = {"session_id", "value"} - set(reader.fieldnames or ())
            if unknown or missing:
                what = f'unknown column "{unknown[0]}"' if unknown else f'no column "{min(missing)}"'
                raise InputError(f"{path}: {what}; expected {','.join(COLUMNS)}")
            return rows_of(reader, f"{path}: row {{}}")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}") from error
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV: {error}") from error


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
