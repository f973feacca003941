"""`spangrade score` and `spangrade label`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from spangrade.evaluator.cli.options import Db, LakeCatalog, SessionId
from spangrade.evaluator.cli.output import console, database_or_lake
from spangrade.tracer.errors import InputError
from spangrade.tracer.terminal import counted

Note = Annotated[str, typer.Option(metavar="TEXT", help="Why, in words.")]
Span = Annotated[
    str | None, typer.Option(metavar="ID", help="The span of the session that it is about, such as a call.")
]


Turn = Annotated[
    int | None, typer.Option(metavar="N", help="The turn that is scored, from 1; else the session.")
]


class LabelVerdict(StrEnum):
    """A person's verdict."""

    PASS = "pass"  # noqa: S105 (a verdict)
    FAIL = "fail"


def score(
    session: SessionId,
    scores: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE...", help="A number, true or false, or a word, such as thumbs=1."),
    ],
    db: Db = None,
    lake: LakeCatalog = None,
    turn: Turn = None,
    by: Annotated[
        str | None, typer.Option(metavar="USER", help="The person who gives it; without, a program.")
    ] = None,
    note: Note = "",
    span: Span = None,
) -> None:
    """Give a session a score, such as thumbs=1; a new value replaces the earlier one of the same user."""
    values = dict(map(_parsed, scores))
    with database_or_lake(db, lake) as opened:
        saved = opened.score(session, values, turn=turn, by=by, note=note, span_id=span)
    where = saved[0].session_id if turn is None else f"{saved[0].session_id}, turn {turn}"
    console().print(f"{where}: {', '.join(scores)}", markup=False)


def label(
    session: Annotated[
        str | None, typer.Argument(help="A session's id, or the beginning of one, if no other begins so.")
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="pass|fail|NAME=VALUE...",
            help="The person's verdict; or scores: a number, true or false, or a word, such as thumbs=1.",
        ),
    ] = None,
    by: Annotated[str | None, typer.Option(metavar="USER", help="The person who judges.")] = None,
    db: Db = None,
    lake: LakeCatalog = None,
    golden: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Without SESSION: walk through its unreviewed questions; p accepts, f takes out.",
        ),
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="CSV",
            help="Labels and scores in bulk, with the columns session_id,name,value,by,note,span_id.",
        ),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="What is judged; else the session as a whole.")
    ] = None,
    turn: Turn = None,
    note: Note = "",
    span: Span = None,
) -> None:
    """Label a session, or what a metric measures of it, or give it scores; a new one replaces the earlier.

    Without SESSION it walks through what you did not label, or through the questions of a golden file.

    With --from, all labels (pass, fail) and scores of a CSV are stored, or none of them if one cannot be.
    """
    if rows is not None:
        if session is not None or values or any((by, metric, note, span)):
            raise typer.BadParameter("the file has the labels: expected no other label", param_hint="--from")
        with database_or_lake(db, lake) as opened:
            stored = opened.labels(rows)
        sessions = counted(len({one.session_id for one in stored}), "session")
        console().print(f"{counted(len(stored), 'score')} of {sessions}")
        return
    if session is None and by is not None and not any((note, span, turn)):
        from spangrade.evaluator.cli.review import review

        review(by=by, db=db, lake=lake, metric=metric, golden=golden)
        return
    if session is not None and values and values[0] not in set(LabelVerdict):
        score(session, values, db, lake, turn, by, note, span)
        return
    verdict = LabelVerdict(values[0]) if values and len(values) == 1 else None
    if session is None or verdict is None or by is None:
        missing = "SESSION" if session is None else "pass or fail" if verdict is None else "--by USER"
        raise typer.BadParameter(f"expected {missing}, or --from CSV")
    if turn is not None:
        raise typer.BadParameter("a verdict is that of a session: expected NAME=VALUE", param_hint="--turn")
    with database_or_lake(db, lake) as opened:
        saved = opened.label(session, verdict.value, by=by, metric=metric, note=note, span_id=span)
    console().print(f"{saved.session_id}: {saved.name} {saved.label}", markup=False)


def _parsed(text: str) -> tuple[str, float | bool | str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"expected NAME=VALUE, such as thumbs=1, found {text!r}")
    from spangrade.evaluator.review.scores.given import value_of

    return name, value_of(value)
