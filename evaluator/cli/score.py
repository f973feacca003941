"""`spangrade score` and `spangrade label`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from spangrade.evaluator.cli.options import Db, LakeCatalog, SessionId
from spangrade.evaluator.cli.output import console, database_or_lake
from spangrade.tracer.errors import InputError

Note = Annotated[str, typer.Option(metavar="TEXT", help="Why, in words.")]


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
    turn: Annotated[
        int | None, typer.Option(metavar="N", help="The turn that is scored, from 1; else the session.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="USER", help="The person who gives it; without, a program.")
    ] = None,
    note: Note = "",
) -> None:
    """Give a session a score, such as thumbs=1; a new value replaces the earlier one of the same user."""
    values = dict(map(_parsed, scores))
    with database_or_lake(db, lake) as opened:
        saved = opened.score(session, values, turn=turn, by=by, note=note)
    where = saved[0].session_id if turn is None else f"{saved[0].session_id}, turn {turn}"
    console().print(f"{where}: {', '.join(scores)}", markup=False)


def label(
    session: SessionId,
    verdict: Annotated[LabelVerdict, typer.Argument(help="The person's verdict.")],
    by: Annotated[str, typer.Option(metavar="USER", help="The person who judges.")],
    db: Db = None,
    lake: LakeCatalog = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="What is judged; else the session as a whole.")
    ] = None,
    note: Note = "",
) -> None:
    """Label a session, or what a metric measures of it; a new label replaces the user's earlier one."""
    with database_or_lake(db, lake) as opened:
        saved = opened.label(session, verdict.value, by=by, metric=metric, note=note)
    console().print(f"{saved.session_id}: {saved.name} {saved.label}", markup=False)


def _parsed(text: str) -> tuple[str, float | bool | str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"expected NAME=VALUE, such as thumbs=1, found {text!r}")
    if value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    try:
        return name, float(value)
    except ValueError:
        return name, value
