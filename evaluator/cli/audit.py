"""`spangrade audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spangrade.evaluator.cli.options import (
    Answers,
    Db,
    Format,
    JudgeMaxCalls,
    JudgeMaxCost,
    JudgeThreshold,
    JudgeVotes,
    MetricsFiles,
    NoReference,
    NoReferences,
    OutputFormat,
    answers_of,
)
from spangrade.evaluator.cli.output import database, print_json, print_lines, show
from spangrade.evaluator.cli.settings import is_given


def audit(
    context: typer.Context,
    dataset: Annotated[
        Path, typer.Argument(help="Golden JSON, a folder of it and its spans, or what `grade` takes.")
    ],
    db: Db = None,
    spans: Annotated[
        list[Path] | None,
        typer.Option(help="Recorded spans to import and audit; without, all stored sessions are audited."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME>=T", help="A gate beside those of the references; repeat it for more."),
    ] = None,
    metrics_file: MetricsFiles = None,
    question: Answers = None,
    no_reference: NoReference = None,
    no_references: NoReferences = False,
    mutants: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many of each session.")] = 20,
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed draws other mutants.")] = 0,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only mutants of this kind; repeat it for more."),
    ] = None,
    failed: Annotated[
        bool,
        typer.Option("--failed", help="Audit sessions that do not pass too, by the gates that they meet."),
    ] = False,
    judge_model: Annotated[
        str | None,
        typer.Option(
            metavar="PROVIDER/MODEL", help="The model that judges replies; without, no judge is asked."
        ),
    ] = None,
    judge_max_calls: JudgeMaxCalls = None,
    judge_max_cost: JudgeMaxCost = None,
    judge_votes: JudgeVotes = 1,
    judge_threshold: JudgeThreshold = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write what is proposed into the golden file.")
    ] = False,
    all: Annotated[bool, typer.Option("--all", help="List all survivors and questions.")] = False,  # noqa: A002
    out: Annotated[
        Path | None, typer.Option(help="A folder for audit.json, audit.md and golden.diff.")
    ] = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Break sessions that pass, and see which defects the golden dataset and its gates notice.

    No agent is run, and nothing is saved. Exit codes: 0 audited, 2 bad input, 4 no session could be audited.
    """
    with database(db) as opened:
        audited = opened.audit(
            dataset,
            spans=spans or (),
            metrics=metric or (),
            metrics_files=metrics_file or (),
            answers=answers_of(question or ()),
            no_reference=no_reference or (),
            no_references=no_references,
            mutants=mutants,
            seed=seed,
            kinds=kind or (),
            failed=failed,
            # A judge of the settings is not meant for the thousands of replies of an audit.
            judge_model=judge_model if is_given(context, "judge_model") else None,
            judge_max_calls=judge_max_calls,
            judge_max_cost=judge_max_cost,
            judge_votes=judge_votes,
            judge_threshold=judge_threshold,
            write=write,
            out=out,
        )
    from spangrade.evaluator.audit.printed import audit_json, audit_tables

    if format is Format.JSON:
        print_json(audit_json(audited))
    else:
        show(audit_tables(audited, every=all))
        print_lines(audited.diff)
    raise typer.Exit(audited.exit_code)
