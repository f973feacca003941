"""`spangrade convert`: logs, eval histories, eval sets and stored sessions into datasets, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spangrade.converters import convert_adk_history_to_dataset, convert_test_to_golden
from spangrade.converters.script import report
from spangrade.evaluator.cli.options import Db, SessionId
from spangrade.evaluator.cli.output import database
from spangrade.evaluator.cli.settings import with_config
from spangrade.tracer.terminal import warn

app = typer.Typer(
    help="Convert logs, ADK's eval history and eval sets, and stored sessions into datasets.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("test-to-golden")(convert_test_to_golden.convert)
app.command("adk-history")(convert_adk_history_to_dataset.convert)


@app.command()
def evalset(
    source: Annotated[Path, typer.Option("--input", "-i", help="An ADK eval set, or a golden file.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="A golden file, which keeps what it has; or a new eval set."),
    ],
    agent: Annotated[
        str | None, typer.Option("--agent", "-a", help="The agent that is to answer; an eval set names none.")
    ] = None,
) -> None:
    """Convert an ADK eval set into golden questions, or golden questions into an ADK eval set.

    What cannot be used is named and left out, and the exit code is then 2.
    """
    from spangrade.converters.datasets.adk_evalset import convert

    written, problems = convert(source, output, agent)
    report(f"{written} to {output}", problems)


@app.command()
@with_config
def session(
    session_id: SessionId,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A golden file; what it has already is kept.")
    ],
    db: Db = None,
    question_id: Annotated[
        str | None,
        typer.Option(
            "--id", help="The question's id; without, the one that the session answers, or the session's own."
        ),
    ] = None,
    wildcards: Annotated[
        bool, typer.Option("--wildcards", help="Expect no value that looks generated: ids, timestamps.")
    ] = False,
) -> None:
    """Make a stored session a golden question: what it did is what is expected from then on."""
    with database(db) as opened:
        addition = opened.add_to_golden(session_id, output, question_id=question_id, wildcards=wildcards)
    for where in addition.volatile:
        handled = "any value is accepted" if wildcards else "--wildcards accepts any value"
        warn(f"{where}: looks generated; {handled}")
    report(f"{addition.added} question added to {output}", addition.problems)
