"""Convert a conversation log into a golden question: a script; `spangrade convert FILE` does the same."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from spangrade.converters.datasets.files import separate
from spangrade.converters.script import report, run_script
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.terminal import counted


def convert(
    source: Annotated[
        Path,
        typer.Option("--input", "-i", help='A list of turns, objects with "query".'),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A golden file; questions already in it are kept.")
    ],
    agent: Annotated[str, typer.Option("--agent", "-a", help="The agent that answers.")],
    metadata: Annotated[
        list[str] | None, typer.Option(metavar="KEY:VALUE", help="A tag of the question; may be repeated.")
    ] = None,
    id_prefix: Annotated[
        str | None, typer.Option(help="The prefix of the question's id; default: the agent's name.")
    ] = None,
    reference_response: Annotated[
        bool, typer.Option(help="Keep the last turn's reference as the expected response.")
    ] = True,
) -> None:
    """Add the conversation of a log to a golden dataset, as one question.

    Anything that cannot be used is reported and left out, and the exit code is then 2.
    """
    from spangrade.converters.datasets.conversation_log import question_of
    from spangrade.converters.datasets.files import load_json
    from spangrade.converters.datasets.golden import append, existing

    _, dataset = existing(output)
    taken = [question.id for question in dataset.golden_questions] if dataset else []
    records = question_of(
        load_json(source),
        str(source),
        agent,
        agent if id_prefix is None else id_prefix,
        {"source_file": source.name, **_tags(metadata or ())},
        taken,
        responses=reference_response,
    )
    questions, problems = separate(records)
    added, rejected = append(output, questions)
    turns = sum(len(question["user_inputs"]) for question in questions)
    report(
        f"{counted(added, 'question')} of {counted(turns, 'turn')} added to {output}", [*problems, *rejected]
    )


def _tags(pairs: Iterable[str]) -> dict[str, str]:
    """Return `key:value` texts as a mapping. Raises InputError for one without a key or a colon."""
    tags = {}
    for pair in pairs:
        key, colon, value = pair.partition(":")
        if not colon or not key:
            raise InputError(f'--metadata "{pair}": expected key:value')
        tags[key] = value
    return tags


if __name__ == "__main__":
    run_script(convert)
