"""`spangrade label`, and its walk through sessions or questions."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import typer
from rich.rule import Rule
from rich.text import Text

from spangrade import Selection
from spangrade.evaluator.cli.options import Selected, StoredIn
from spangrade.evaluator.cli.output import console, note_origins
from spangrade.evaluator.results.origin import OriginFilter
from spangrade.evaluator.review.scores.queues import USUAL, Queue
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import argument, option, values_of
from spangrade.tracer.base.terminal import counted

if TYPE_CHECKING:
    from spangrade import Database
    from spangrade.converters.datasets.golden import GoldenQuestion
    from spangrade.evaluator.database import ToReview

_LABELS: Mapping[str, Literal["pass", "fail"]] = {"p": "pass", "f": "fail"}
_Item = TypeVar("_Item")
_KEYS = "p pass · f fail · s skip · b back · q quit"


class LabelVerdict(StrEnum):
    """A person's verdict."""

    PASS = "pass"  # noqa: S105 (a verdict)
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreNote:
    """Who says what, and of what."""

    turn: int | None = option(None, "The turn that is scored, from 1; else the session.", metavar="N")
    by: str | None = option(None, "The person who gives it; without, a program.", metavar="USER")
    note: str = option("", "Why, in words.", metavar="TEXT")
    span_id: str | None = option(
        None, "The span of the session that it is about, such as a call.", name="--span", metavar="ID"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOptions:
    """What is labelled: a session, all rows of a file, or what a person walks through."""

    session: str | None = argument(None, "A session's id, or the beginning of one, if no other begins so.")
    verdict: str | None = argument(None, "The person's verdict.", metavar="pass|fail")
    scores: tuple[str, ...] = option(
        (),
        "In place of a verdict: a number, true or false, or a word, such as thumbs=1; repeatable.",
        name="--score",
        metavar="NAME=VALUE",
    )
    metric: str | None = option(None, "What is judged; else the session as a whole.", metavar="NAME")
    rows: Path | None = option(
        None,
        "Labels and scores in bulk, with the columns session_id,name,value,by,note,span_id.",
        name="--from",
        metavar="CSV",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkOptions:
    """What a person walks through."""

    queue: Queue = option(
        USUAL,
        "Which sessions: suggested (gates disagree, then near a threshold, then others at random), failed, "
        "disputed by your labels, sampled (at random, as `spangrade judge` needs), or all unlabelled.",
    )
    limit: int = option(20, "The most to walk through.", least=1, metavar="N")
    seed: int = option(0, "Shuffles the sessions that are taken at random.", metavar="N")
    golden: Path | None = option(
        None,
        "Walk through the questions of a golden file that nobody reviewed: p accepts, f takes it out.",
        metavar="FILE",
    )


def label(
    select: Selected, labelled: LabelOptions, given: ScoreNote, walk: WalkOptions, at: StoredIn
) -> None:
    """Label a session, or what a metric measures of it, or give it scores; a new one replaces the earlier.

    Without SESSION it walks through what you did not label, or through the questions of a golden file. Keys:
    p pass, f fail, s skip, b back, q quit. Each label is stored at once.

    With --from, all labels (pass, fail) and scores of a CSV are stored, or none of them if one cannot be.
    """
    session, verdict, scores, by = labelled.session, labelled.verdict, labelled.scores, given.by
    if labelled.rows is not None:
        if session is not None or scores or labelled.metric or given != ScoreNote():
            raise typer.BadParameter("the file has the labels: expected no other label", param_hint="--from")
        with at.opened() as opened:
            stored = opened.labels(labelled.rows)
        sessions = counted(len({one.session_id for one in stored}), "session")
        console().print(f"{counted(len(stored), 'score')} of {sessions}")
        return
    if session is None and not scores and by is not None and replace(given, by=None) == ScoreNote():
        walk_through(by, select, labelled.metric, walk, at)
        return
    if select != Selection() or walk != WalkOptions():
        raise typer.BadParameter("what is walked through is chosen without SESSION, and with --by USER")
    if session is not None and scores:
        if verdict is not None:
            raise typer.BadParameter("expected pass or fail, or --score NAME=VALUE", param_hint="--score")
        with at.opened() as opened:
            scored = opened.score(session, dict(map(_parsed, scores)), **values_of(given))
        where = scored[0].session_id if given.turn is None else f"{scored[0].session_id}, turn {given.turn}"
        console().print(f"{where}: {', '.join(scores)}", markup=False)
        return
    if verdict is not None and verdict not in set(LabelVerdict):
        hint = f"; did you mean --score {verdict}?" if "=" in verdict else ""
        raise InputError(f"{verdict!r}: expected pass or fail{hint}")
    if session is None or verdict is None or by is None:
        missing = (
            "SESSION"
            if session is None
            else "pass or fail, or --score NAME=VALUE"
            if verdict is None
            else "--by USER"
        )
        raise typer.BadParameter(f"expected {missing}, or --from CSV")
    if given.turn is not None:
        raise typer.BadParameter(
            "a verdict is that of a session: expected --score NAME=VALUE", param_hint="--turn"
        )
    with at.opened() as opened:
        saved = opened.label(
            session,
            LabelVerdict(verdict).value,
            by=by,
            metric=labelled.metric,
            note=given.note,
            span_id=given.span_id,
        )
    console().print(f"{saved.session_id}: {saved.name} {saved.label}", markup=False)


def _parsed(text: str) -> tuple[str, float | bool | str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"expected NAME=VALUE, such as thumbs=1, found {text!r}")
    from spangrade.evaluator.review.scores.given import value_of

    return name, value_of(value)


def walk_through(by: str, select: Selection, metric: str | None, walk: WalkOptions, at: StoredIn) -> None:
    """Show sessions, or the questions of a golden file, one by one, and store what a person says of each."""
    if walk.golden is not None:
        with _keys() as next_key:
            _review_questions(walk.golden, next_key, by, walk.limit)
        return
    origin = select.origin or OriginFilter.PRODUCTION
    with at.opened() as opened:
        chosen = values_of(walk, "queue", "limit", "seed")
        sessions = opened.to_review(metric=metric, by=by, origin=origin, select=select, **chosen)
        note_origins(opened, origin)
        with _keys() as next_key:
            labelled = _walk(opened, sessions, next_key, by, metric)
    counts = ", ".join(f"{number} {label}" for label, number in sorted(Counter(labelled.values()).items()))
    console().print(f"{len(labelled)} labelled{': ' if counts else ''}{counts}", markup=False)


def _review_questions(golden: Path, next_key: Callable[[], str], by: str, limit: int) -> None:
    """Show the questions that nobody has reviewed, one by one, and store what a person decides."""
    from spangrade.converters.datasets.golden import load_golden, set_reviewed
    from spangrade.evaluator.reports.question_sentence import question_text

    questions = [one for one in load_golden(golden).golden_questions if one.reviewed is False][:limit]
    decided: dict[str, str] = {}

    def show(question: GoldenQuestion, place: str) -> None:
        console().print(Rule(Text(f"{place}: {question.id}")))
        for line in question_text(question):
            console().print(line)

    for question, label in _walked(questions, show, next_key):
        set_reviewed(golden, question.id, by, accepted=label == "pass")
        decided[question.id] = label
    counts = Counter(decided.values())
    text = f"{counts['pass']} accepted, {counts['fail']} taken out of {golden}"
    console().print(text, markup=False, soft_wrap=True)


def _walk(
    opened: Database,
    sessions: Sequence[ToReview],
    next_key: Callable[[], str],
    by: str,
    metric: str | None,
) -> dict[str, str]:
    """Show sessions one by one and store their labels; return the labels by session."""
    labelled: dict[str, str] = {}
    for one, label in _walked(sessions, partial(_show, opened), next_key):
        opened.label(one.session_id, label, by=by, metric=metric)
        labelled[one.session_id] = label
    return labelled


def _walked(
    items: Sequence[_Item], show: Callable[[_Item, str], None], next_key: Callable[[], str]
) -> Iterator[tuple[_Item, Literal["pass", "fail"]]]:
    """Show items one by one, and yield those that a person labels, each with its label."""
    position = 0
    while position < len(items):
        show(items[position], f"{position + 1} of {len(items)}")
        console().print(Text(_KEYS, "bold"))
        key = _known_key(next_key)
        if key == "q":
            return
        if label := _LABELS.get(key):
            yield items[position], label
        position = max(position - 1, 0) if key == "b" else position + 1


def _show(opened: Database, one: ToReview, place: str) -> None:
    from spangrade.evaluator.reports.session_text import session_text
    from spangrade.evaluator.reports.tables import cell

    out = console()
    out.print(Rule(Text(f"{place}: {one.reason}" if one.reason else place)))
    if one.details:
        out.print(cell(one.details))
    session = opened.session(one.session_id)
    for part in session_text(
        session, opened.latest_grade(one.session_id), opened.external_scores(one.session_id)
    ):
        out.print(part)


def _known_key(next_key: Callable[[], str]) -> str:
    """Return the next key that means something; the end of the input quits."""
    while True:
        key = next_key().lower()
        if key in ("", "q"):
            return "q"
        if key in _LABELS or key in ("s", "b"):
            return key


@contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """Give a function that waits for a key, at a terminal without Enter; "" is the end of the input."""
    if not sys.stdin.isatty():
        yield lambda: sys.stdin.read(1)
        return
    try:
        import termios
        import tty
    except ModuleNotFoundError:  # Windows
        yield typer.getchar
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSANOW)  # keys that are typed ahead stay
        yield lambda: os.read(terminal, 1).decode(errors="replace")
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
