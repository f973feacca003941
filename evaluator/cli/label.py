"""`spangrade label`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import typer

from spangrade import Selection
from spangrade.evaluator.cli.options import Selected, StoredIn
from spangrade.evaluator.cli.output import console
from spangrade.evaluator.cli.walk import WalkOptions, walk_through
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import argument, option, values_of
from spangrade.tracer.base.terminal import counted


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
