"""`spangrade run`."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spangrade import ExitCode, Gates, GradeSpec, JudgeOptions, RunOptions, Selection
from spangrade.evaluator.cli.options import (
    AllMetrics,
    Db,
    Format,
    GradeWorkers,
    Only,
    OutputFormat,
    option_of,
)
from spangrade.evaluator.cli.output import database, print_json, print_lines, show_run
from spangrade.evaluator.cli.settings import loaded_settings
from spangrade.tracer.terminal import print_line, warn

if TYPE_CHECKING:
    from spangrade import Database, Run

_AGENT = re.compile(r"[\w./\\-]+:[A-Za-z_][\w.]*")  # file.py:name or package.module:name


def run(
    context: typer.Context,
    gates: Gates,
    select: Annotated[Selection, Only("where", "questions")],
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
    http_body: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help='With --http: what the server expects, such as \'{"q": "{text}"}\'.'
        ),
    ] = None,
    http_reply: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="With --http: where its answer is, such as $.data.reply."),
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
        typer.Option(
            metavar="BASELINE",
            help="Compare with this run, with statistics: its name, or as `compare` takes it.",
            show_default="what flipped since the last run of this branch, else of its base",
        ),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'METRIC worse by MARGIN'",
            help="A gate of the comparison, which then decides in place of failed sessions: 'broken > 0' if "
            "repeats of a question agree, else 'worse'; repeatable.",
        ),
    ] = None,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept", help="What failed questions expect becomes what the agent did, once you confirm it."
        ),
    ] = False,
    all: Annotated[bool, typer.Option("--all", help="Print all that is known, not ten lines.")] = False,  # noqa: A002
    all_metrics: AllMetrics = False,
    out: Annotated[
        Path | None, typer.Option(help="A folder for the reports (HTML, JSON, CSV, JUnit, Markdown).")
    ] = None,
    workers: GradeWorkers = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Run an agent over golden questions, each in a session of its own, and grade the sessions.

    Exit codes: 0 all passed, 1 a session failed, 2 bad input, 3 a metric or judge broke, 4 inconclusive, 130
    interrupted; with --fail-if, 1 if a gate of the comparison failed, 4 if the data do not settle one; with
    --stop-when-settled, 1 if it is worse, 4 if more questions broke than were fixed and that shows no loss.
    """
    if fail_if and compare is None:
        raise typer.BadParameter("it needs --compare BASELINE", param_hint="--fail-if")
    settles = options.stop_when_settled
    if fail_if and settles:
        raise typer.BadParameter(
            "it is about all questions: expected it without --stop-when-settled", param_hint="--fail-if"
        )
    again = _again(agent, dataset, http, openai, model)
    asked, questions = _agent(agent, dataset, http, http_body, http_reply, openai, model)
    # Conditions on questions are checked when the specification is made, which needs the dataset.
    questions = questions or loaded_settings(context).settings.run.dataset
    if questions is None:
        given = f"AGENT was given ({asked}), the dataset is missing: " if isinstance(asked, str) else ""
        raise typer.BadParameter(f"{given}expected DATASET, here or in the table `run` of the settings")
    spec = GradeSpec.of(questions, gates, select, judge, name, tag, group_by)
    with database(db, workers) as opened:
        if compare is not None and not settles:
            opened.compare(compare, compare)  # a baseline that is not there is known before the agent runs
        graded = opened.run(asked, spec, options=options, baseline=compare if settles else None, out=out)
        compared = None
        if compare is not None and not settles:
            compared = opened.compare(compare, graded.run_id, fail_if=fail_if or ())
        flips = None if compared is not None else opened.flips(graded)
    code = graded.exit_code
    if compared is not None and fail_if:
        code = graded.decided_by(compared.exit_code())
    if compared is not None and out is not None:
        from spangrade.evaluator.reports.comparison_files import write_comparison

        write_comparison(compared, out, stored=opened.stored, run=graded)
    if format is Format.JSON:
        from spangrade.evaluator.reports.comparison import comparison_json
        from spangrade.evaluator.reports.json import run_json

        more: dict[str, Any] = {} if compared is None else {"comparison": comparison_json(*compared)}
        if flips is not None:
            broken, fixed = list(flips.broken), list(flips.fixed)
            more = {"flips": {"run_id": flips.earlier.run_id, "broken": broken, "fixed": fixed}}
        print_json({**run_json(graded), **more})
    else:
        show_run(opened, graded, compared, flips, code=code, every=all or all_metrics, again=again)
    if accept:
        code = _accept(opened, graded, code)
    raise typer.Exit(code)


def _again(
    agent: str | None, dataset: str | None, http: str | None, openai: str | None, model: str | None
) -> str:
    """Return the command that runs the same agent over the same questions."""
    urls = [f"--{name} {quote(url)}" for name, url in (("http", http), ("openai", openai)) if url]
    model = None if model is None else f"--model {quote(model)}"
    words = [*(quote(one) for one in (agent, dataset) if one), *urls, *([model] if model else [])]
    return " ".join(["spangrade run", *words])


def _accept(opened: Database, run: Run, code: ExitCode) -> ExitCode:
    """Show what a golden file would expect from now on, and write it if the user confirms it."""
    accepted = opened.accept(run)
    for line in accepted.left:
        warn(line)
    if not accepted.diff:
        print_line("nothing to accept")
        return code
    print_lines("\n".join(accepted.diff))
    if not typer.confirm(f"Write {accepted.path}?"):
        return code
    accepted.write()
    print_line(f"{accepted.path} written: run again to see what it passes")
    return ExitCode.PASSED if not accepted.left else code


def _agent(
    first: str | None,
    second: str | None,
    http: str | None,
    http_body: str | None,
    http_reply: str | None,
    openai: str | None,
    model: str | None,
) -> tuple[object | None, str | None]:
    """Return the agent and the dataset, None for that of the settings; one argument alone is the dataset."""
    remote = [option for option, url in (("--http", http), ("--openai", openai)) if url]
    if len(remote) > 1 or (remote and second is not None):
        raise typer.BadParameter("expected one agent: AGENT, --http or --openai")
    if (openai is None) is not (model is None):
        raise typer.BadParameter("expected --openai URL and --model NAME together")
    if http is None and (http_body or http_reply):
        raise typer.BadParameter("--http-body and --http-reply are about --http URL: expected it, too")
    if http is not None:
        from spangrade import HttpAgent  # pydantic takes 70 ms to import

        return HttpAgent(http, http_body, http_reply), first
    if openai is not None and model is not None:
        from spangrade import ChatAgent

        return ChatAgent(openai, model), first
    is_agent = first is not None and _AGENT.fullmatch(first) is not None and not Path(first).exists()
    return (None, first) if second is None and not is_agent else (first, second)
