"""The golden questions that a run compared its sessions with, as the database keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from typing import Any

import nanoarrow as na
import orjson
from pydantic import ValidationError

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import BATCH, arrow_rows

_COLUMNS = {"question_id": na.string(), "digest": na.string(), "question": na.string()}
_ABOUT = ("id", "metadata", "reviewed")
_AT_ONCE = BATCH  # questions: DuckDB takes less memory for whole row groups; the rows of 20,000 take 95 MB


def save_questions(store: Store, run_id: str, questions: Iterable[GoldenQuestion]) -> str | None:
    """Store the questions of a run, those that are not stored yet; return the digest of all of them.

    It is the SHA-256 of their own digests, sorted: it does not depend on their order, nor on what their file
    looks like. None without questions.
    """
    digests: list[str] = []
    rest = iter(questions)
    while rows := [_row(question) for question in islice(rest, _AT_ONCE)]:
        digests += (digest for _, digest, _ in rows)
        asked = arrow_rows(rows, _COLUMNS)
        store.query(
            "INSERT INTO golden_questions BY NAME SELECT DISTINCT digest, question FROM asked "
            "ANTI JOIN golden_questions USING (digest)",
            asked=asked,
        )
        store.query(
            "INSERT INTO run_questions BY NAME SELECT $run_id AS run_id, question_id, digest FROM asked",
            {"run_id": run_id},
            asked=asked,
        )
    return _digest_of(digests)


def digest_of(questions: Iterable[GoldenQuestion]) -> str | None:
    """Return the digest of questions that `save_questions` returns, without storing them."""
    return _digest_of([_row(question)[1] for question in questions])


def _digest_of(digests: Iterable[str]) -> str | None:
    ordered = sorted(digests)
    return sha256("\n".join(ordered).encode()).hexdigest() if ordered else None


def stored_questions(store: Store, run_id: str) -> Iterator[GoldenQuestion]:
    """Yield the questions of a run as it had them, without those that another version of spangrade wrote."""
    rows = store.query(
        "SELECT question FROM run_questions JOIN golden_questions USING (digest) WHERE run_id = $run_id "
        "ORDER BY question_id",
        {"run_id": run_id},
    )
    for (text,) in rows:
        with suppress(ValidationError):
            yield GoldenQuestion.model_validate_json(text or "")


def expectation(question: Mapping[str, Any]) -> str:
    """Return the user inputs and references of a question, given as JSON values, as canonical JSON."""
    return canonical({key: value for key, value in question.items() if key not in _ABOUT})


def expectations(questions: Iterable[GoldenQuestion]) -> dict[str, Any]:
    """Return each question's user inputs and references, as JSON values by its id."""
    return {
        question.id: orjson.loads(expectation(question.model_dump(mode="json", exclude_unset=True)))
        for question in questions
    }


def _row(question: GoldenQuestion) -> tuple[str, str, str]:
    text = canonical(question.model_dump(mode="json", exclude_unset=True))
    return question.id, sha256(text.encode()).hexdigest(), text


def stored_questions_of(
    store: Store, run_id: str, question_ids: Sequence[str]
) -> Mapping[str, GoldenQuestion]:
    """Return the questions of some ids as a run had them, by id, without those that it did not store."""
    rows = store.query(
        "SELECT question_id, question FROM run_questions JOIN golden_questions USING (digest) "
        "WHERE run_id = $run_id AND question_id IN (SELECT unnest($questions::VARCHAR[]))",
        {"run_id": run_id, "questions": question_ids},
    )
    found = {}
    for question_id, text in rows:
        with suppress(ValidationError):  # another version of spangrade wrote it
            found[question_id] = GoldenQuestion.model_validate_json(text or "")
    return found
