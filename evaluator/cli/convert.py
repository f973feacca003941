"""`spangrade convert`: logs, eval histories, eval sets and stored sessions into datasets, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spangrade.converters import convert_adk_history_to_dataset, convert_test_to_golden
from spangrade.converters.datasets.problems import separate
from spangrade.converters.script import report
from spangrade.evaluator.cli.options import Db
from spangrade.evaluator.cli.output import database, warn

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
    from spangrade.converters.datasets.adk_evalset import evalset_of, is_evalset, questions_of
    from spangrade.converters.datasets.files import load_json, write_new_json
    from spangrade.converters.datasets.golden import append, golden_of

    document = load_json(source)
    if is_evalset(document):
        questions, problems = separate(questions_of(document, str(source), agent))
        added, more = append(output, questions)
        report(f"{added} questions added to {output}", [*problems, *more])
    else:
        golden = golden_of(document, str(source)).golden_questions
        converted, problems = evalset_of(golden, output.name.partition(".")[0])
        write_new_json(output, converted)
        report(f"{len(golden)} eval cases written to {output}", problems)


@app.command()
def session(
    session_id: Annotated[str, typer.Argument(help="A stored session's id, or the beginning of one.")],
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
