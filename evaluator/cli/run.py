"""`spangrade run`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spangrade import ExitCode, Gates, GradeSpec, JudgeOptions, RunOptions, Selection
from spangrade.evaluator.cli.declare import Only
from spangrade.evaluator.cli.options import Every, Graders, Printed, StoredIn
from spangrade.evaluator.cli.output import print_lines, sent_scores, show_run, show_sent
from spangrade.evaluator.cli.settings import loaded_settings
from spangrade.evaluator.results.scores_to import ScoresTo
from spangrade.tracer.base.fields import argument, option
from spangrade.tracer.base.terminal import print_line, warn

if TYPE_CHECKING:
    from spangrade import Database, Run

_AGENT = re.compile(r"[\w./\\-]+:[A-Za-z_][\w.]*")  # file.py:name or package.module:name


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """Which agent is asked which questions; of the two arguments, one alone may be the dataset."""

    agent: str | None = argument(
        None,
        "The agent, package.module:name or file.py:name; left out with --http, --openai, and if the settings "
        "name one.",
    )
    dataset: str | None = argument(
        None, "Golden JSON, or another file with questions; else that of the settings."
    )
    http: str | None = option(None, "An agent in another process, which gets each turn there.", metavar="URL")
    http_body: str | None = option(
        None, 'With --http: what the server expects, such as \'{"q": "{text}"}\'.', metavar="JSON"
    )
    http_reply: str | None = option(
        None, "With --http: where its answer is, such as $.data.reply.", metavar="PATH"
    )
    openai: str | None = option(
        None, "A server with OpenAI's chat completions API, such as …/v1.", metavar="URL"
    )
    model: str | None = option(None, "The model for --openai.", metavar="NAME")

    def agent_and_dataset(self) -> tuple[object | None, str | None]:
        """Return the agent and the dataset, None for that of the settings."""
        remote = [one for one in (self.http, self.openai) if one]
        if len(remote) > 1 or (remote and self.dataset is not None):
            raise typer.BadParameter("expected one agent: AGENT, --http or --openai")
        if (self.openai is None) is not (self.model is None):
            raise typer.BadParameter("expected --openai URL and --model NAME together")
        if self.http is None and (self.http_body or self.http_reply):
            raise typer.BadParameter("--http-body and --http-reply are about --http URL: expected it, too")
        if self.http is not None:
            from spangrade import HttpAgent  # pydantic takes 70 ms to import

            return HttpAgent(self.http, self.http_body, self.http_reply), self.agent
        if self.openai is not None and self.model is not None:
            from spangrade import ChatAgent

            return ChatAgent(self.openai, self.model), self.agent
        first, second = self.agent, self.dataset
        is_agent = first is not None and _AGENT.fullmatch(first) is not None and not Path(first).exists()
        return (None, first) if second is None and not is_agent else (first, second)

    @property
    def again(self) -> str:
        """The command that runs the same agent over the same questions."""
        given = {
            "--http": self.http,
            "--http-body": self.http_body,
            "--http-reply": self.http_reply,
            "--openai": self.openai,
            "--model": self.model,
        }
        words = [quote(one) for one in (self.agent, self.dataset) if one]
        words += [f"{name} {quote(value)}" for name, value in given.items() if value]
        return " ".join(["spangrade run", *words])


@dataclass(frozen=True, slots=True, kw_only=True)
class ThisRun:
    """What a run is called, what it is compared with, and what is made of it."""

    name: str | None = option(
        None, "A name for the run.", metavar="NAME", shown_default="the branch and the commit"
    )
    compare: str | None = option(
        None,
        "Compare with this run, with statistics: its name, or as `compare` takes it.",
        metavar="BASELINE",
        shown_default="what flipped since the last run of this branch, else of its base",
    )
    fail_if: tuple[str, ...] = option(
        (),
        "A condition on the comparison, which then decides in place of failed sessions: 'regressed > 0' if "
        "repeats of a question agree, else 'worse'; repeatable.",
        metavar="'METRIC worse by MARGIN'",
    )
    accept: bool = option(
        False, "What failed questions expect becomes what the agent did, once you confirm it."
    )
    out: Path | None = option(None, "A folder for the reports (HTML, JSON, CSV, JUnit, Markdown).")


def run(
    context: typer.Context,
    gates: Annotated[Gates, Only("metrics")],
    select: Annotated[Selection, Only("where", "questions")],
    judge: JudgeOptions,
    options: RunOptions,
    asked: AgentOptions,
    this: ThisRun,
    of_run: Annotated[GradeSpec, Only("tags")],
    at: StoredIn,
    by: Graders,
    every: Every,
    scores_to: Annotated[ScoresTo, Only("send")],
    printed: Printed,
) -> None:
    """Run an agent over golden questions, each in a session of its own, and grade the sessions.

    Exit codes: 0 all passed, 1 a session failed, 2 bad input, 3 a metric or judge broke, 4 inconclusive, 130
    interrupted; with --fail-if, 1 if a condition on the comparison failed, 4 if the data do not settle one.
    """
    compare, fail_if = this.compare, this.fail_if
    if fail_if and compare is None:
        raise typer.BadParameter("it needs --compare BASELINE", param_hint="--fail-if")
    agent, questions = asked.agent_and_dataset()
    # Conditions on questions are checked when the specification is made, which needs the dataset.
    questions = questions or loaded_settings(context).settings.run.dataset
    if questions is None:
        given = f"AGENT was given ({agent}), the dataset is missing: " if isinstance(agent, str) else ""
        raise typer.BadParameter(f"{given}expected DATASET, here or in the table `run` of the settings")
    spec = GradeSpec.of(questions, gates, select, judge, this.name, of_run.tags)
    with at.opened(by.workers) as opened:
        # A run of the same name, or of the same branch, is another one once this one is stored.
        baseline = None if compare is None else opened.baseline(compare)
        graded = opened.run(agent, spec, options=options, out=this.out)
        sent = sent_scores(opened, graded, scores_to)
        compared = None
        if baseline is not None:
            compared = opened.compare(baseline, graded.run_id, fail_if=fail_if)
        flips = None if compared is not None else opened.flips(graded)
    code = graded.exit_code
    if compared is not None and fail_if:
        code = graded.decided_by(compared.exit_code())
    if compared is not None and this.out is not None:
        from spangrade.evaluator.reports.comparison import write_comparison

        write_comparison(compared, this.out, stored=opened.stored, run=graded)
    if not printed.as_table:
        from spangrade.evaluator.reports.comparison import comparison_json
        from spangrade.evaluator.reports.json import run_json

        more: dict[str, Any] = {} if compared is None else {"comparison": comparison_json(*compared)}
        if flips is not None:
            regressed, fixed = list(flips.regressed), list(flips.fixed)
            found = {"regressed": regressed, "fixed": fixed, "not_known": list(flips.not_known)}
            more = {"flips": {"run_id": flips.earlier.run_id, **found}}
        if sent is not None:
            more["sent"] = sent._asdict()
        printed.write({**run_json(graded), **more}, "grades")
    else:
        show_run(opened, graded, compared, flips, code=code, every=every.all, again=asked.again)
        show_sent(sent)
    if this.accept:
        code = _accept(opened, graded, code)
    raise typer.Exit(code)


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
