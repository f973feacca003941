"""Scores that did not come from grading: given by people, recorded in traces, or written by programs.

They are rows of the table `scores` without a run. There is one for each source, author, session, turn, name
and span: a newer one replaces it. As metrics they can gate: `thumbs>=1`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import nanoarrow as na

from spangrade.evaluator.metrics import Inconclusive, Metric, Outcome, Score, load_metrics
from spangrade.evaluator.metrics.stored_values import stored_span_ids, stored_word
from spangrade.evaluator.session import Session
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_rows
from spangrade.tracer.store.sql import statement
from spangrade.tracer.store.store import Stored

LABEL = "label"  # the name of a label of a session as a whole
COMMENT = "comment"  # the name of what a person says of a step


class Source(StrEnum):
    """Where a score came from; `RUN` is a metric of a grading run."""

    RUN = "run"
    PERSON = "person"
    TRACE = "trace"
    PROGRAM = "program"


class ExternalScore(NamedTuple):
    """A score of a session or, with `turn` (from 1), of one of its turns.

    It has a `value`, a `label` in words, or both. `passed` is the judgement of its source, if it made one.
    `evidence` holds the ids of the spans that it is about; `time_ns` is when it was given.
    """

    session_id: str
    name: str
    value: float | None
    source: Source
    time_ns: int
    label: str | None = None
    passed: bool | None = None
    author: str | None = None
    note: str = ""
    turn: int | None = None
    evidence: tuple[str, ...] = ()


_TYPES = {
    "session_id": na.string(),
    "metric": na.string(),
    "value": na.float64(),
    "source": na.string(),
    "time_ns": na.int64(),
    "label": na.string(),
    "passed": na.bool_(),
    "author": na.string(),
    "reason": na.string(),
    "turn": na.int64(),
    "evidence": na.string(),
}


def save_external_scores(store: Store, scores: Iterable[ExternalScore]) -> None:
    """Write scores to an open database; each replaces an older one of its key. Call it in a transaction.

    The key is the source, author, session, turn, name and evidence. A score that is older than the stored one
    of its key is dropped, so that the same scores may be written again, and in any order.
    """
    newest: dict[tuple[object, ...], ExternalScore] = {}
    for score in sorted(scores, key=lambda score: score.time_ns):
        newest[key_of(score)] = score
    if not newest:
        return
    incoming = arrow_rows([(*score[:-1], canonical(score.evidence)) for score in newest.values()], _TYPES)
    store.query(statement("delete_replaced", "spangrade.evaluator.metrics"), incoming=incoming)
    store.query(statement("insert_external", "spangrade.evaluator.metrics"), incoming=incoming)


def delete_external_score(store: Store, score: ExternalScore) -> None:
    """Delete the stored score with the key of one: its source, author, session, turn, name and evidence."""
    store.query(
        statement("delete_external", "spangrade.evaluator.metrics"),
        {
            "session_id": score.session_id,
            "name": score.name,
            "source": score.source,
            "author": score.author,
            "turn": score.turn,
            "evidence": canonical(score.evidence),
        },
    )


def external_scores(store: Store, session_ids: Sequence[str] | None = None) -> dict[str, list[ExternalScore]]:
    """Return the external scores by session, of all sessions or of some, each list in order of time."""
    by_session: dict[str, list[ExternalScore]] = {}
    rows = store.query(statement("external_scores", "spangrade.evaluator.metrics"), {"sessions": session_ids})
    for row in rows:
        score = ExternalScore._make((*row[:-1], stored_span_ids(row[-1])))
        by_session.setdefault(score.session_id, []).append(
            score._replace(source=stored_word(Source, score.source, "scores.source"))
        )
    return by_session


def key_of(score: ExternalScore) -> tuple[object, ...]:
    """Return the key by which a score replaces another: source, author, session, turn, name, evidence."""
    return (score.source, score.author, score.session_id, score.turn, score.name, score.evidence)


class _Stored:
    """The external scores of a database by session and name, read when the first is needed."""

    def __init__(self, db: Stored, wait_s: float) -> None:
        self._db = db
        self._wait_s = wait_s
        self._scores: dict[str, list[ExternalScore]] | None = None

    def outcome(self, name: str, session: Session) -> Outcome:
        """Return the mean of a session's scores of a name; inconclusive if it was given none."""
        if self._scores is None:
            with self._db.reading(derived=False, wait_s=self._wait_s) as store:
                self._scores = external_scores(store)
        given = [
            score
            for score in self._scores.get(session.session_id, ())
            if score.name == name and score.value is not None
        ]
        if not given:
            return Inconclusive(f"nobody gave the session a score {name}")
        values = [score.value for score in given if score.value is not None]
        reason = ", ".join(f"{score.value:g} by {score.author or score.source}" for score in given)
        evidence = dict.fromkeys(span for score in given for span in score.evidence)
        return Score(math.fsum(values) / len(values), None, reason, tuple(evidence))


def external_metrics(db: Stored, requested: Iterable[str | Metric], wait_s: float) -> dict[str, Metric]:
    """Return a metric for each name of external scores that a database holds.

    The database is opened, and its sessions are derived, only if a text requests a metric that is not
    installed: a score that traces have is there once they are.
    """
    installed = load_metrics()
    if not db.exists() or all(isinstance(one, Metric) or name_of(one) in installed for one in requested):
        return {}
    with db.reading(wait_s=wait_s) as store:
        rows = store.query("SELECT DISTINCT metric FROM scores WHERE run_id IS NULL AND value IS NOT NULL")
    stored = _Stored(db, wait_s)
    return {
        name: Metric(
            name,
            partial(stored.outcome, name),
            "The mean of the scores that people, traces and programs gave.",
            higher_is_better=None,
            unit="score",
            scale=(-math.inf, math.inf),
        )
        for (name,) in rows
    }


def name_of(text: str) -> str:
    """Return the name of the metric that a text such as `thumbs>=1` requests, without its parameter."""
    for sign in ("<", ">", "="):
        text = text.partition(sign)[0]
    return text.partition(":")[0].strip()
