"""`spangrade grade`."""

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
    JudgeModel,
    JudgeThreshold,
    JudgeVotes,
    MetricRequests,
    MetricsFiles,
    NoReference,
    NoReferences,
    OutputFormat,
    answers_of,
    tags_of,
)
from spangrade.evaluator.cli.output import database, print_json, show
from spangrade.evaluator.cli.settings import is_given


def grade(
    context: typer.Context,
    dataset: Annotated[
        Path | None,
        typer.Argument(
            help="Golden JSON, a folder of it and its spans, an ADK eval set, a simulation's CSV or JSONL; "
            "without, the stored sessions are graded by --metric alone."
        ),
    ] = None,
    db: Db = None,
    spans: Annotated[
        list[Path] | None,
        typer.Option(help="Recorded spans to import and grade; without, all stored sessions are graded."),
    ] = None,
    metric: MetricRequests = None,
    metrics_file: MetricsFiles = None,
    session: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Grade this session; repeat it for more.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only sessions since 2026-01-31, or of the last 30d.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only sessions that started before this time.")
    ] = None,
    last_import: Annotated[
        bool, typer.Option("--last-import", help="Only sessions of the files that were imported last.")
    ] = False,
    latest_per_question: Annotated[
        bool, typer.Option("--latest-per-question", help="Only the last session of each question.")
    ] = False,
    question: Answers = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Only questions for which it holds: 'metadata.topic = refund and …'. Without a dataset: "
            'only sessions for which it holds, in SQL over the view sessions: "cost_usd > 0.1 AND '
            "scores['thumbs'] < 1\".",
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="NAME", help="Without a dataset: only sessions of this agent.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Without a dataset: only sessions with this model.")
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option(
            metavar="5%", help="Without a dataset: a share of the sessions, by their ids: the same each time."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Without a dataset: at most so many, the newest.")
    ] = None,
    group_by: Annotated[
        str | None,
        typer.Option(metavar="metadata.KEY", help="Count the results by a key of the questions."),
    ] = None,
    no_reference: NoReference = None,
    no_references: NoReferences = False,
    require_match: Annotated[
        bool, typer.Option("--require-match", help="A session that no gate judges counts as inconclusive.")
    ] = False,
    judge_model: JudgeModel = None,
    judge_max_calls: JudgeMaxCalls = None,
    judge_max_cost: JudgeMaxCost = None,
    judge_votes: JudgeVotes = 1,
    judge_threshold: JudgeThreshold = None,
    run: Annotated[
        str | None, typer.Option(metavar="NAME", help="A name for the run, to find and compare it by.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A note on the run; repeat it for more.")
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="List all sessions that did not pass.")] = False,  # noqa: A002
    out: Annotated[
        Path | None, typer.Option(help="A folder for the reports (HTML, JSON, CSV, JUnit, Markdown).")
    ] = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Grade stored sessions against a golden dataset or, without one, by gates alone.

    Exit codes: 0 all passed, 1 a session failed, 2 bad input, 3 a metric or judge broke, 4 inconclusive.
    """
    with database(db) as opened:
        graded = opened.grade(
            dataset,
            spans=spans or (),
            metrics=metric or (),
            metrics_files=metrics_file or (),
            sessions=session or (),
            since=since,
            until=until,
            last_import=last_import,
            latest_per_question=latest_per_question,
            answers=answers_of(question or ()),
            where=where,
            agent=agent,
            model=model,
            sample=sample if dataset is None or is_given(context, "sample") else None,
            limit=limit if dataset is None or is_given(context, "limit") else None,
            group_by=group_by,
            no_reference=no_reference or (),
            no_references=no_references,
            require_match=require_match,
            judge_model=judge_model,
            judge_max_calls=judge_max_calls,
            judge_max_cost=judge_max_cost,
            judge_votes=judge_votes,
            judge_threshold=judge_threshold,
            run=run,
            tags=tags_of(tag or ()),
            out=out,
        )
    if format is Format.JSON:
        from spangrade.evaluator.reports.json import run_json

        print_json(run_json(graded))
    else:
        from spangrade.evaluator.reports.tables import run_tables

        show(run_tables(graded, every=all))
    raise typer.Exit(graded.exit_code)
