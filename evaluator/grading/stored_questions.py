"""The golden questions that a run compared its sessions with, as the database keeps them."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import nanoarrow as na
import orjson
from pydantic import ValidationError

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.tracer.canonical_json import canonical
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_rows

_COLUMNS = {"question_id": na.string(), "digest": na.string(), "question": na.string()}


def save_questions(store: Store, run_id: str, questions: Iterable[GoldenQuestion]) -> str | None:
    """Store the questions of a run, those that are not stored yet; return the digest of all of them.

    It is the SHA-256 of the questions in any order, whatever their file looks like; None without questions.
    """
    rows = []
    for question in questions:
        text = canonical(question.model_dump(mode="json", exclude_unset=True))
        rows.append((question.id, sha256(text.encode()).hexdigest(), text))
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
    texts = sorted(text for _, _, text in rows)
    return sha256("\n".join(texts).encode()).hexdigest() if texts else None


def stored_question(store: Store, run_id: str, question_id: str) -> GoldenQuestion | None:
    """Return a question as a run had it; None if the run did not store it."""
    rows = store.query(
        "SELECT question FROM run_questions JOIN golden_questions USING (digest) "
        "WHERE run_id = $run_id AND question_id = $question_id",
        {"run_id": run_id, "question_id": question_id},
    )
    if not rows:
        return None
    try:
        return GoldenQuestion.model_validate(orjson.loads(rows[0][0]))
    except ValidationError:  # another version of spangrade wrote it
        return None
