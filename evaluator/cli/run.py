"""`spangrade run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spangrade import ExitCode, Gates, GradeSpec, JudgeOptions, RunOptions, Selection
from spangrade.evaluator.cli.options import Db, Format, GradeWorkers, Only, OutputFormat, option_of
from spangrade.evaluator.cli.output import database, print_json, show
from spangrade.evaluator.cli.settings import loaded_settings


def run(
    context: typer.Context,
    gates: Gates,
    select: Annotated[Selection, Only("where")],
    judge: JudgeOptions,
    options: RunOptions,
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT",
            help="The agent, package.module:name or file.py:name; left out with --http, --openai, and if the "
            "settings name one.",
            show_default=False,
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET",
            help="Golden JSON, or another file with questions; else that of the settings.",
            show_default=False,
        ),
    ] = None,
    db: Db = None,
    http: Annotated[
        str | None,
        typer.Option(metavar="URL", help="An agent in another process, which gets each turn there."),
    ] = None,
    openai: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A server with OpenAI's chat completions API, such as …/v1."),
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="The model for --openai.")] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A name for the run.", show_default="the branch and the commit"),
    ] = None,
    tag: Annotated[list[str] | None, option_of(GradeSpec, "tags")] = None,
    group_by: Annotated[str | None, option_of(GradeSpec, "group_by")] = None,
    compare: Annotated[
        str | None,
        typer.Option(metavar="BASELINE", help="Compare with this run: its name, or as `compare` takes it."),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'METRIC worse by MARGIN'",
            help="A gate of the comparison, which then decides in place of failed sessions: 'broken > 0' if "
            "repeats of a question agree, else 'worse'; repeatable.",
        ),
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="List all sessions that did not pass.")] = False,  # noqa: A002
    all_metrics: Annotated[
        bool, typer.Option("--all-metrics", help="List the metrics that are only reported, too.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="A folder for the reports (HTML, JSON, CSV, JUnit, Markdown).")
    ] = None,
    workers: GradeWorkers = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Run an agent over golden questions, each in a session of its own, and grade the sessions.

    Exit codes: 0 all passed, 1 a session failed, 2 bad input, 3 a metric or judge broke, 4 inconclusive, 130
    interrupted; with --fail-if, 1 if a gate of the comparison failed, 4 if the data do not settle one.
    """
    if fail_if and compare is None:
        raise typer.BadParameter("it needs --compare BASELINE", param_hint="--fail-if")
    asked, questions = _agent(agent, dataset, http, openai, model)
    # Conditions on questions are checked when the specification is made, which needs the dataset.
    questions = questions or loaded_settings(context).settings.run.dataset
    if questions is None:
        raise typer.BadParameter("expected DATASET, here or in the table `run` of the settings")
    spec = GradeSpec.of(questions, gates, select, judge, name, tag, group_by)
    with database(db, workers) as opened:
        if compare is not None:
            opened.compare(compare, compare)  # a baseline that is not there is known before the agent runs
        graded = opened.run(asked, spec, options=options, out=out)
        compared = None
        if compare is not None:
            compared = opened.compare(compare, graded.run_id, fail_if=fail_if or ())
    if compared is not None and out is not None:
        from spangrade.evaluator.reports.comparison_files import write_comparison

        write_comparison(compared, out)
    if format is Format.JSON:
        from spangrade.evaluator.reports.comparison import comparison_json
        from spangrade.evaluator.reports.json import run_json

        comparison = {} if compared is None else {"comparison": comparison_json(*compared)}
        print_json({**run_json(graded), **comparison})
    else:
        from spangrade.evaluator.reports.comparison import comparison_tables
        from spangrade.evaluator.reports.flips import flip_lines, flips_of
        from spangrade.evaluator.reports.tables import run_tables

        show(run_tables(graded, every=all, all_metrics=all_metrics))
        if compared is not None:
            changed = flip_lines(flips_of(compared.comparison), opened.stored)
            show(changed, comparison_tables(*compared, every=all, all_metrics=all_metrics))
    code = graded.exit_code
    if compared is not None and fail_if:
        code = _with_gates(code, compared.exit_code())
    raise typer.Exit(code)


def _agent(
    first: str | None, second: str | None, http: str | None, openai: str | None, model: str | None
) -> tuple[object | None, str | None]:
    """Return the agent and the dataset, None for that of the settings; one argument alone is the dataset."""
    remote = [option for option, url in (("--http", http), ("--openai", openai)) if url]
    if len(remote) > 1 or (remote and second is not None):
        raise typer.BadParameter("expected one agent: AGENT, --http or --openai")
    if (openai is None) is not (model is None):
        raise typer.BadParameter("expected --openai URL and --model NAME together")
    if http is not None:
        from spangrade import HttpAgent  # pydantic takes 70 ms to import

        return HttpAgent(http), first
    if openai is not None and model is not None:
        from spangrade import ChatAgent

        return ChatAgent(openai, model), first
    return (None, first) if second is None else (first, second)


def _with_gates(graded: ExitCode, compared: ExitCode) -> ExitCode:
    """Return the exit code of a run whose failed sessions are for the gates of a comparison to judge."""
    if graded in (ExitCode.PASSED, ExitCode.FAILED):
        return compared
    return compared if (graded, compared) == (ExitCode.INCONCLUSIVE, ExitCode.FAILED) else graded
