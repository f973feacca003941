"""What a reviewer writes from a page: labels and scores, golden questions, and undoing them."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from spangrade.converters.datasets.files import write_json
from spangrade.converters.datasets.golden import existing
from spangrade.evaluator.metrics.external import (
    COMMENT,
    LABEL,
    ExternalScore,
    Source,
    delete_external_score,
    external_scores,
    save_external_scores,
)
from spangrade.evaluator.review.scores.given import label_of, of_session, on_span, scores_of
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.store import Store

MAX_BYTES = 1_000_000  # of what a page sends
_MOST_UNDONE = 100  # steps
_MOST_DIGITS = 10  # of the number of a turn


class _Step(NamedTuple):
    """What was written, in words, how it is undone, the address of the page for it, and of which session."""

    what: str
    undo: Callable[[Store], None]
    page: str = ""
    session_id: str = ""


class _ChangedError(InputError):
    """What was written and is to be undone is no longer there."""


class Reviewer:
    """A person who may write, for as long as the server runs.

    `token` is in the pages of this server alone: a request without it comes from another site. `golden` is
    the file to which questions are added, None where there is none.
    """

    def __init__(self, name: str, golden: Path | None = None) -> None:
        self.name = name
        self.golden = golden
        self.token = secrets.token_urlsafe(32)
        self._steps: list[_Step] = []

    def accepts(self, token: str) -> bool:
        """Return whether a request has the token."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    @property
    def last(self) -> str:
        """What was written last and can be undone, in words; "" for nothing."""
        return self._steps[-1].what if self._steps else ""

    @property
    def last_session(self) -> str:
        """The session about which it was written; "" for a golden question."""
        return self._steps[-1].session_id if self._steps else ""

    def write(self, store: Store, session_id: str, form: Mapping[str, str], page: str = "") -> str:
        """Store what the form of a session's page gives, in a transaction of the caller; return it in words.

        `verdict` is pass, fail or "remove"; without one `value` is a number or a word. `name` is the rubric,
        by default the label of the session as a whole, `turn` the turn and `span` the span; a `comment` is a
        score of this name in words, an empty one removes it. Without a `note` that of the label before stays.
        `page` is where undoing it leads. Raises
        InputError for what cannot be stored.
        """
        comment = form["comment"].strip() if "comment" in form else None
        name = COMMENT if comment is not None else form.get("name", "").strip() or LABEL
        verdict, value = form.get("verdict", ""), form.get("value", "").strip()
        turn, span = _turn(form.get("turn", "")), form.get("span", "").strip() or None
        before = self._given(store, session_id, name, turn, span)
        kept = "" if before is None else before.note
        note = form.get("note", kept).strip()
        where = f"{name}, turn {turn}" if turn else name
        if comment == "":
            verdict = "remove"
        if verdict == "remove":
            if before is None:
                raise InputError(f"you gave no {where} on this session")
            delete_external_score(store, before)

            def undo_removal(again: Store) -> None:
                save_external_scores(again, [before])

            self._keep(_Step(f"removed {where}", undo_removal, page, session_id))
            return self.last
        if comment:
            (one,) = scores_of({name: comment}, turn=turn, by=self.name, note="")
        elif verdict in ("pass", "fail"):
            one = label_of(verdict, by=self.name, metric=name, note=note)._replace(turn=turn)  # type: ignore[arg-type]
        elif value:
            (one,) = scores_of({name: _number_or_word(value)}, turn=turn, by=self.name, note=note)
        else:
            raise InputError("choose pass or fail, or give a score")
        (saved,) = of_session(store, session_id, [on_span(one, span)], None)
        save_external_scores(store, [saved])

        def undo(again: Store) -> None:
            now = self._given(again, session_id, name, turn, span)
            if now is None or (now.value, now.label, now.note) != (saved.value, saved.label, saved.note):
                raise _ChangedError(f"{where} was changed elsewhere meanwhile, and stays as it is")
            delete_external_score(again, saved)
            if before is not None:
                save_external_scores(again, [before])

        self._keep(_Step(f"{where}: {saved.label or value}", undo, page, session_id))
        return self.last

    def add_question(self, question: Mapping[str, Any], *, reviewed: bool) -> str:
        """Add a golden question to the file, or correct the one of its id.

        If it is `reviewed`, it is marked so, by this person. Return what was done in words. Raises InputError
        if there is no file.
        """
        if self.golden is None:
            raise InputError("no golden file is open: start `spangrade view` with --golden FILE")
        known, _ = existing(self.golden)
        before = known["golden_questions"]
        by = {"reviewed_by": self.name} if reviewed else {}
        added = {
            **question,
            "reviewed": reviewed,
            "metadata": {**(question.get("metadata") or {}), **by},
        }
        is_known = any(one["id"] == question["id"] for one in before)
        after = [added if one["id"] == question["id"] else one for one in before]
        write_json(self.golden, {**known, "golden_questions": after if is_known else [*before, added]})
        file = self.golden

        def undo(again: Store) -> None:  # noqa: ARG001 (of the file, not of the database)
            now, _ = existing(file)
            old = {one["id"]: one for one in before}
            left = [old.get(one["id"]) if one == added else one for one in now["golden_questions"]]
            write_json(file, {**now, "golden_questions": [one for one in left if one is not None]})

        what = "corrected" if is_known else "added"
        self._keep(_Step(f"{what} question {question['id']}", undo))
        return self.last

    def undo(self, store: Store) -> str:
        """Undo what was written last, in a transaction of the caller; return the page of it."""
        if not self._steps:
            raise InputError("nothing is left to undo")
        step = self._steps[-1]
        try:
            step.undo(store)
        except _ChangedError:
            self._steps.remove(step)
            raise
        self._steps.remove(step)  # not before: what cannot be written now may be undone later
        return step.page

    def _keep(self, step: _Step) -> None:
        self._steps = [*self._steps[1 - _MOST_UNDONE :], step]

    def _given(
        self, store: Store, session_id: str, name: str, turn: int | None, span: str | None
    ) -> ExternalScore | None:
        """Return this person's score of a session, a name, a turn and a span."""
        given = external_scores(store, [session_id]).get(session_id, ())
        mine = (one for one in given if one.source is Source.PERSON and one.author == self.name)
        key = (name, turn, () if span is None else (span,))
        return next((one for one in mine if (one.name, one.turn, one.evidence) == key), None)


def _turn(text: str) -> int | None:
    if not text.strip():
        return None
    if not (text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS):
        raise InputError(f"turn: {text[:80]!r} is not the number of a turn")
    return int(text)


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
