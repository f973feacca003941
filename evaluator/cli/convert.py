"""`spangrade convert`: logs, eval histories, eval sets and stored sessions into datasets, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spangrade import Selection
from spangrade.converters import convert_adk_history_to_dataset, convert_test_to_golden
from spangrade.converters.script import report
from spangrade.evaluator.cli.options import Db, Only, with_groups
from spangrade.evaluator.cli.output import database
from spangrade.evaluator.cli.settings import with_config
from spangrade.tracer.errors import InputError
from spangrade.tracer.terminal import counted, warn

_Source = Annotated[Path, typer.Option("--input", "-i", help="The file of the other tool.")]
_Golden = Annotated[Path, typer.Option("--output", "-o", help="A golden file, which keeps what it has.")]

app = typer.Typer(
    help="Convert logs, files of other tools, and stored sessions into datasets.",
    no_args_is_help=True,
    add_completion=False,  # that of `spangrade` is enough
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
def promptfoo(source: _Source, output: _Golden) -> None:
    """Convert promptfoo's configuration into golden questions.

    What has no counterpart is named, and the exit code is 2 if it left out what is expected of a reply.
    """
    _convert("promptfoo", source, output)


@app.command()
def inspect(source: _Source, output: _Golden) -> None:
    """Convert a dataset of Inspect (JSON, JSON Lines or CSV) into golden questions.

    What has no counterpart is named.
    """
    _convert("inspect", source, output)


@app.command()
def deepeval(source: _Source, output: _Golden) -> None:
    """Convert a dataset of DeepEval (JSON, JSON Lines or CSV) into golden questions.

    What has no counterpart is named.
    """
    _convert("deepeval", source, output)


def _convert(tool: str, source: Path, output: Path) -> None:
    from spangrade.converters.datasets.other_tools import convert

    added, problems = convert(tool, source, output)
    report(f"{counted(added, 'question')} added to {output}", problems)


def session(
    select: Annotated[Selection, Only("where", "since", "until", "agent", "model", "limit")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A golden file; what it has already is kept.")
    ],
    session_id: Annotated[
        str | None,
        typer.Argument(help="A session's id, or the beginning of one; without, the options choose many."),
    ] = None,
    db: Db = None,
    question_id: Annotated[
        str | None,
        typer.Option(
            "--id", help="The question's id; without, the one that the session answers, or the session's own."
        ),
    ] = None,
    wildcards: Annotated[
        bool,
        typer.Option(
            "--wildcards", help="With one id: expect no value that looks generated: ids, timestamps."
        ),
    ] = False,
    dedupe: Annotated[
        bool, typer.Option("--dedupe", help="Merge sessions whose user inputs differ in values alone.")
    ] = False,
    failed_calls: Annotated[
        bool, typer.Option("--failed-calls", help="Expect calls that failed to fail again.")
    ] = False,
) -> None:
    """Make golden questions of stored sessions: what they did is what is expected from then on.

    With an id, of that session; else of all that the options choose. Sessions with equal user inputs become
    one question, which nobody has reviewed yet: it has "reviewed": false.
    """
    many = select != Selection() or dedupe
    if session_id is None:
        if not many:
            raise InputError("convert which sessions? Expected an id, --where, --since, --limit or --dedupe")
        if question_id is not None or wildcards:
            raise InputError("--id and --wildcards are about one session: give its id")
    elif many or failed_calls:
        raise InputError("expected the id of one session or options that choose many, not both")
    with database(db) as opened:
        if session_id is not None:
            addition = opened.add_to_golden(session_id, output, question_id=question_id, wildcards=wildcards)
        else:
            addition = opened.mine_golden(
                output,
                select=select,
                dedupe=dedupe,
                failed_calls=failed_calls,
            )
    for place in addition.volatile:
        handled = "any value is accepted" if wildcards else "--wildcards accepts any value"
        warn(f"{place}: looks generated; {handled}")
    report(f"{counted(addition.added, 'question')} added to {output}", addition.problems)


app.command()(with_config(with_groups(session)))
