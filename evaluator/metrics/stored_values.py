"""Values of the tables of runs and scores, as types: the database may be someone else's, with any values."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import isfinite, isnan
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, TypeAdapter, ValidationError

from spangrade.evaluator.metrics.causes import Cause, Evidence, span_ids
from spangrade.tracer.base.errors import StoreError

T = TypeVar("T")
Word = TypeVar("Word", bound=StrEnum)


def _threshold(text: str) -> str:
    number = text.removeprefix(">=").removeprefix("<=")
    if number == text or not isfinite(float(number)):
        raise ValueError(text)
    return text


_THRESHOLDS = TypeAdapter(dict[str, Annotated[str, AfterValidator(_threshold)]])
_TAGS = TypeAdapter(dict[str, str])
_EVIDENCE = TypeAdapter(tuple[str | dict[Literal["span", "path", "after", "before"], str | None], ...])
_QUESTION = TypeAdapter(dict[str, Any])


def stored_thresholds(text: str | None) -> dict[str, str]:
    """Return `runs.thresholds`: the thresholds of a run's gates by metric. Raises StoreError."""
    return _read(_THRESHOLDS, text or "{}", "runs.thresholds", 'an object such as {"cost": "<= 0.1"}')


def stored_tags(text: str | None) -> dict[str, str]:
    """Return `runs.tags`. Raises StoreError."""
    return _read(_TAGS, text or "{}", "runs.tags", "an object of texts")


def stored_span_ids(text: str | None) -> tuple[str, ...]:
    """Return `scores.evidence`: the ids of the spans that a score is about. Raises StoreError."""
    return span_ids(stored_evidence(text))


def stored_evidence(text: str | None) -> tuple[Evidence, ...]:
    """Return `scores.evidence`: the causes that a score names. Raises StoreError."""
    found = _read(_EVIDENCE, text or "[]", "scores.evidence", "a list of span ids or places")
    return tuple(
        one
        if isinstance(one, str)
        else Cause(one.get("span"), one.get("path") or "", one.get("after"), one.get("before"))
        for one in found
    )


def stored_question_json(text: str | None) -> dict[str, Any]:
    """Return `golden_questions.question`. Raises StoreError, which does not show the question."""
    try:
        return _QUESTION.validate_json(text or "")
    except ValidationError:
        raise StoreError(
            "the database has a value in golden_questions.question: expected an object"
        ) from None


def stored_texts(texts: Sequence[str | None] | None, column: str) -> tuple[str, ...]:
    """Return a column that is a list of texts. Raises StoreError."""
    found = tuple(text for text in texts or () if text is not None)
    if len(found) != len(texts or ()):
        raise _unexpected(column, None, "a list of texts")
    return found


def stored_bounds(lowest: float, highest: float) -> tuple[float, float]:
    """Return `run_metrics.lowest` and `run_metrics.highest`. Raises StoreError."""
    for column, value in (("lowest", lowest), ("highest", highest)):
        if value is not None and isnan(value):
            raise _unexpected(f"run_metrics.{column}", value, "a number")
    return lowest, highest


def stored_word(words: type[Word], text: str, column: str) -> Word:
    """Return the value of a column of words from a fixed list. Raises StoreError."""
    try:
        return words(text)
    except ValueError:
        raise _unexpected(column, text, f"one of {', '.join(words)}") from None


def only_run(rows: Sequence[T], run_id: str) -> T:
    """Return the one row that there must be of a run. Raises StoreError."""
    if len(rows) != 1:
        raise StoreError(f"the database has {len(rows)} runs with the id {run_id!r}: expected one")
    return rows[0]


def _read(kind: TypeAdapter[T], text: str, column: str, expected: str) -> T:
    try:
        return kind.validate_json(text)
    except ValidationError:
        raise _unexpected(column, text, expected) from None


def _unexpected(column: str, value: Any, expected: str) -> StoreError:
    return StoreError(f"the database has {value!r:.60} in {column}: expected {expected}")
