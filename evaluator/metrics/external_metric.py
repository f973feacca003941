"""External scores as metrics, so that they can gate: `thumbs>=1`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

from spangrade.evaluator.metrics import Inconclusive, Metric, Outcome, Score, load_metrics
from spangrade.evaluator.metrics.external import ExternalScore, external_scores
from spangrade.evaluator.session import Session
from spangrade.tracer.store.store import Stored


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
