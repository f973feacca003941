"""`spangrade convert`: logs, eval histories, eval sets and stored sessions into datasets, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spangrade import Selection
from spangrade.converters import convert_adk_history_to_dataset, convert_test_to_golden
from spangrade.converters.script import report
from spangrade.evaluator.cli.options import Db, Only, WithDefault, with_groups
from spangrade.evaluator.cli.output import database
from spangrade.evaluator.cli.settings import with_config
from spangrade.tracer.errors import InputError
from spangrade.tracer.terminal import counted, warn

_Source = Annotated[Path, typer.Option("--input", "-i", help="The file of the other tool.")]
_Golden = Annotated[Path, typer.Option("--output", "-o", help="A golden file, which keeps what it has.")]
QuestionId = Annotated[
    str | None,
    typer.Option(
        "--id", help="The question's id; without, the one that the session answers, or the session's own."
    ),
]
Wildcards = Annotated[
    bool,
    typer.Option("--wildcards", help="With one id: expect no value that looks generated: ids, timestamps."),
]
Dedupe = Annotated[
    bool, typer.Option("--dedupe", help="Merge sessions whose user inputs differ in values alone.")
]
FailedCalls = Annotated[bool, typer.Option("--failed-calls", help="Expect calls that failed to fail again.")]

app = typer.Typer(
    cls=WithDefault,
    help="Convert logs, files of other tools, and stored sessions into datasets.",
    add_completion=False,  # that of `spangrade` is enough
    pretty_exceptions_enable=False,
)
app.command("test-to-golden", hidden=True)(convert_test_to_golden.convert)
app.command("adk-history", hidden=True)(convert_adk_history_to_dataset.convert)


@app.command(hidden=True)
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


@app.command(hidden=True)
def promptfoo(source: _Source, output: _Golden) -> None:
    """Convert promptfoo's configuration into golden questions.

    What has no counterpart is named, and the exit code is 2 if it left out what is expected of a reply.
    """
    _convert("promptfoo", source, output)


@app.command(hidden=True)
def inspect(source: _Source, output: _Golden) -> None:
    """Convert a dataset of Inspect (JSON, JSON Lines or CSV) into golden questions.

    What has no counterpart is named.
    """
    _convert("inspect", source, output)


@app.command(hidden=True)
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
    question_id: QuestionId = None,
    wildcards: Wildcards = False,
    dedupe: Dedupe = False,
    failed_calls: FailedCalls = False,
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


def convert(
    select: Annotated[Selection, Only("where", "since", "until", "agent", "model", "limit")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="A golden file; what it has already is kept. Or a new eval set."),
    ],
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|SESSION",
            help="A file of promptfoo, Inspect, DeepEval or ADK, or a conversation log; or a session's id; "
            "without, the options choose sessions.",
        ),
    ] = None,
    db: Db = None,
    answered_by: Annotated[
        str | None,
        typer.Option("--agent-name", "-a", help="The agent that answers, for a file that names none."),
    ] = None,
    question_id: QuestionId = None,
    wildcards: Wildcards = False,
    dedupe: Dedupe = False,
    failed_calls: FailedCalls = False,
) -> None:
    """Make golden questions of a file, whose tool is recognized by its content, or of stored sessions.

    What a session did is what is expected from then on. A golden file becomes an eval set of ADK. What cannot
    be used is named and left out, and the exit code is then 2.
    """
    from spangrade.converters.datasets.recognized import tool_of

    if source is None or not Path(source).exists():
        session(select, output, source, db, question_id, wildcards, dedupe, failed_calls)
        return
    tool = tool_of(Path(source))
    if tool == "adk":
        evalset(Path(source), output, answered_by)
    elif tool == "log":
        if answered_by is None:
            raise InputError(f"{source}: a conversation log names no agent: expected --agent-name NAME")
        convert_test_to_golden.convert(Path(source), output, answered_by)
    else:
        _convert(tool, Path(source), output)


app.command("it")(with_config(with_groups(convert)))
app.command(hidden=True)(with_config(with_groups(session)))
