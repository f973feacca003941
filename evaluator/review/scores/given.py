"""Scores that people and programs give, as they are stored."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

import nanoarrow as na

from spangrade.evaluator.grading.session_list import find_session_id
from spangrade.evaluator.metrics.external import LABEL, ExternalScore, Source, external_scores, key_of
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_rows
from spangrade.tracer.store.sql import statement

_SPAN = {"session_id": na.string(), "span_id": na.string()}


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
