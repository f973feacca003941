"""The methods of a database about scores from outside of grading."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from spangrade.evaluator.derive.sync.up_to_date import RUN_WAIT_S
from spangrade.evaluator.grading.session_list import find_session_id
from spangrade.evaluator.read_methods import ReadMethods
from spangrade.evaluator.review.scores.external import ExternalScore, Source, save_external_scores
from spangrade.evaluator.review.scores.review import ToReview, review_order
from spangrade.tracer.errors import InputError
from spangrade.tracer.store import Store

LABEL = "label"  # the name of a label of a session as a whole


class ScoreMethods(ReadMethods):
    """What a `Database` does with scores that people and programs give."""

    def score(
        self,
        session_id: str,
        scores: Mapping[str, float | bool | str],
        *,
        turn: int | None = None,
        by: str | None = None,
        note: str = "",
        at: datetime | None = None,
    ) -> list[ExternalScore]:
        """Store scores of a session, or of one of its turns, by name; return them.

        A value is a number, true or false (1 and 0), or a text, which has no number. `by` names the person
        who gives them; without it they are a program's. A score replaces an earlier one of the same name,
        person, session and turn; `at` is when it was given, by default now (UTC).

        Raises InputError if there is no such session or turn, or for a name or value that cannot be stored.
        """
        if not scores:
            raise InputError("which score? Expected at least one name and value")
        source = Source.PROGRAM if by is None else Source.PERSON
        given = []
        for name, value in scores.items():
            number, label = _value(name, value)
            one = ExternalScore("", _name(name), number, source, 0, label, author=by, note=note, turn=turn)
            given.append(one)
        return self._save(session_id, given, at)

    def label(
        self,
        session_id: str,
        verdict: Literal["pass", "fail"],
        *,
        by: str,
        metric: str | None = None,
        note: str = "",
        at: datetime | None = None,
    ) -> ExternalScore:
        """Store a person's verdict on a session or, with `metric`, on what a metric measures; return it.

        It is a score with the name of the metric, else `label`, and the value 1 (pass) or 0 (fail). For `by`
        and `at`, and for what it replaces, see `score`.
        """
        if verdict not in ("pass", "fail"):
            raise InputError(f"the label is {verdict!r}: expected pass or fail")
        passed = verdict == "pass"
        name = LABEL if metric is None else _name(metric)
        given = ExternalScore(
            "", name, float(passed), Source.PERSON, 0, verdict, passed, author=by, note=note
        )
        return self._save(session_id, [given], at)[0]

    def to_review(
        self,
        *,
        metric: str | None = None,
        seed: int = 0,
        limit: int | None = None,
        at_random: bool = False,
    ) -> list[ToReview]:
        """Return sessions without a label, or without one on what a `metric` measures, for people to review.

        First come those on which the gates of their latest run disagree, then those with a score near its
        threshold, then others in an order that `seed` shuffles. With `at_random` that is the order of all, so
        that the labels are those of a random share.
        """
        name = LABEL if metric is None else _name(metric)
        with self._reading() as store:
            return review_order(store, name, seed, at_random=at_random)[:limit]

    def _save(
        self, session_id: str, scores: Sequence[ExternalScore], at: datetime | None
    ) -> list[ExternalScore]:
        with self._reading() as store:
            known_id = find_session_id(store, session_id)
            query = "SELECT turns FROM derived.sessions WHERE session_id = $id"
            turns = int(store.query(query, {"id": known_id})[0][0])
        if unknown := [
            score.turn for score in scores if score.turn is not None and not 1 <= score.turn <= turns
        ]:
            raise InputError(f'session "{known_id}" has no turn {unknown[0]}: expected 1 to {turns}')
        time_ns = time.time_ns() if at is None else _nanoseconds(at)
        saved = [score._replace(session_id=known_id, time_ns=time_ns) for score in scores]
        with Store.open(self.path, wait_s=RUN_WAIT_S) as store, store.transaction():
            save_external_scores(store, saved)
        return saved


def _nanoseconds(moment: datetime) -> int:
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(zoned.timestamp() * 1_000_000) * 1000


def _name(name: str) -> str:
    if not name.strip() or any(character in name for character in "<>=\n"):
        raise InputError(f"the name of the score is {name!r}: expected a text without <, > and =")
    return name.strip()


def _value(name: str, value: float | bool | str) -> tuple[float | None, str | None]:
    """Return a value's number and its label."""
    if isinstance(value, str):
        if not value.strip():
            raise InputError(f'score "{name}": expected a number, true, false or a text')
        return None, value.strip()
    if not math.isfinite(value):
        raise InputError(f'score "{name}": expected a finite number, found {value}')
    return float(value), None
