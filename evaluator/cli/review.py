"""`spangrade review`."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.rule import Rule
from rich.text import Text

from spangrade.evaluator.cli.options import PRODUCTION, Db, LakeCatalog, Origin
from spangrade.evaluator.cli.output import console, database_or_lake, note_origins
from spangrade.evaluator.review.scores.queues import USUAL, Queue

if TYPE_CHECKING:
    from spangrade import Database
    from spangrade.evaluator.database import ToReview

_LABELS = {"p": "pass", "f": "fail"}
_KEYS = "p pass · f fail · s skip · b back · q quit"


def review(
    by: Annotated[str, typer.Option(metavar="USER", help="The person who reviews.")],
    db: Db = None,
    lake: LakeCatalog = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="What is judged; else the session as a whole.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="The most sessions to review.")] = 20,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Shuffles the sessions that are taken at random.")
    ] = 0,
    queue: Annotated[
        Queue,
        typer.Option(
            help="Which sessions: suggested (gates disagree, then near a threshold, then others at random), "
            "failed, disputed by your labels, sampled (at random, as `spangrade judge agreement` needs), or "
            "all unlabelled."
        ),
    ] = USUAL,
    origin: Origin = PRODUCTION,
    golden: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Review the questions of a golden file instead: p accepts, f takes it out."
        ),
    ] = None,
) -> None:
    """Walk through sessions that you did not label. Keys: p pass, f fail, s skip, b back, q quit.

    They are those of a queue, in the order in which the pages of `spangrade view` have it. Each label is
    stored at once. With --golden, the questions with "reviewed": false are walked through.
    """
    if golden is not None:
        with _keys() as next_key:
            _review_questions(golden, next_key, by, limit)
        return
    with database_or_lake(db, lake) as opened:
        sessions = opened.to_review(metric=metric, seed=seed, limit=limit, queue=queue, by=by, origin=origin)
        note_origins(opened, origin)
        with _keys() as next_key:
            labelled = _walk(opened, sessions, next_key, by, metric)
    counts = ", ".join(f"{number} {label}" for label, number in sorted(Counter(labelled.values()).items()))
    console().print(f"{len(labelled)} labelled{': ' if counts else ''}{counts}", markup=False)


def _review_questions(golden: Path, next_key: Callable[[], str], by: str, limit: int) -> None:
    """Show the questions that nobody has reviewed, one by one, and store what a person decides."""
    from spangrade.converters.datasets.golden import load_golden, set_reviewed
    from spangrade.evaluator.reports.question_text import question_text

    questions = [one for one in load_golden(golden).golden_questions if one.reviewed is False][:limit]
    decided: dict[str, str] = {}
    position = 0
    while position < len(questions):
        question = questions[position]
        console().print(Rule(Text(f"{position + 1} of {len(questions)}: {question.id}")))
        for line in question_text(question):
            console().print(line)
        console().print(Text(_KEYS, "bold"))
        key = _known_key(next_key)
        if key == "q":
            break
        if key == "b":
            position = max(position - 1, 0)
            continue
        if key in _LABELS:
            set_reviewed(golden, question.id, by, accepted=key == "p")
            decided[question.id] = key
        position += 1
    counts = Counter(decided.values())
    text = f"{counts['p']} accepted, {counts['f']} taken out of {golden}"
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
    position = 0
    while position < len(sessions):
        _show(opened, sessions[position], f"{position + 1} of {len(sessions)}")
        key = _known_key(next_key)
        if key == "q":
            break
        if key == "b":
            position = max(position - 1, 0)
            continue
        if label := _LABELS.get(key):
            session_id = sessions[position].session_id
            opened.label(session_id, label, by=by, metric=metric)  # type: ignore[arg-type]
            labelled[session_id] = label
        position += 1
    return labelled


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
    out.print(Text(_KEYS, "bold"))


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
