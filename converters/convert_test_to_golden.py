"""Convert a conversation log into a golden question: a script, and `spangrade convert test-to-golden`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spangrade.converters.datasets.command import finish, run_script, sorted_out, tags


def convert(
    source: Annotated[
        Path,
        typer.Option("--input", "-i", help='A list of turns, objects with "query".'),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A golden file; what it has already is kept.")
    ],
    agent: Annotated[str, typer.Option("--agent", "-a", help="The agent that is to answer.")],
    metadata: Annotated[
        list[str] | None, typer.Option(metavar="KEY:VALUE", help="A tag of the question; may be repeated.")
    ] = None,
    id_prefix: Annotated[str | None, typer.Option(help="What the question's id begins with.")] = None,
    reference_response: Annotated[
        bool, typer.Option(help="Keep the last turn's reference as the response that is expected.")
    ] = True,
) -> None:
    """Add the conversation of a log to a golden dataset, as one question.

    What cannot be used is named and left out, and the exit code is then 2.
    """
    from spangrade.converters.datasets.conversation_log import question_of
    from spangrade.converters.datasets.golden import load_json
    from spangrade.converters.datasets.golden_file import append, existing

    _, dataset = existing(output)
    taken = [question.id for question in dataset.golden_questions] if dataset else []
    records = question_of(
        load_json(source),
        str(source),
        agent,
        agent if id_prefix is None else id_prefix,
        {"source_file": source.name, **tags(metadata or ())},
        taken,
        responses=reference_response,
    )
    questions, problems = sorted_out(records)
    added, wrong = append(output, questions)
    turns = sum(len(question["user_inputs"]) for question in questions)
    finish(f"{added} question of {turns} turns added to {output}", [*problems, *wrong])


if __name__ == "__main__":
    run_script(convert)
