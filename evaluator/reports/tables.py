"""Tables for people, to be printed by rich: any rows, a run, a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spangrade.evaluator.grading.policy import Verdict
from spangrade.evaluator.run import Run, SessionVerdict
from spangrade.evaluator.session import Session
from spangrade.tracer.canonical_json import dumps
from spangrade.tracer.terminal import printable

MAX_LISTED = 20  # sessions of one verdict; sessions.jsonl has all of them

_COLOURS = {  # of the verdicts whose reasons are listed, the gravest first
    Verdict.BROKEN: "magenta",
    Verdict.FAILED: "red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.UNMATCHED: "dim",
}


_INDENT = "\n" + 10 * " "  # of the lines after the first of one message


def cell(value: Any, *, newline: str = "\n") -> Text:
    """Return a value as text in which nothing is markup and no character controls the terminal."""
    if value is None:
        return Text("–", "dim")
    if isinstance(value, float):
        value = f"{value:.6g}"
    if not isinstance(value, str):
        value = dumps(value) if isinstance(value, list | tuple | dict) else str(value)
    return Text(printable(value, newline=newline))


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], title: str | None = None) -> Table:
    """Return rows as a table; columns of numbers are aligned to the right."""
    rows = list(rows)
    made = Table(title=None if title is None else cell(title), title_justify="left")
    for column in columns:
        number = any(isinstance(row[column], int | float) for row in rows)
        made.add_column(cell(column), justify="right" if number else "left", overflow="fold")
    for row in rows:
        made.add_row(*(cell(row[column]) for column in columns))
    return made


def run_tables(run: Run, *, every: bool = False) -> RenderableType:
    """Return what did not pass and why, every metric's totals, what the judge cost, and the totals.

    Unless `every`, only the first sessions of each verdict are listed.
    """
    limit = None if every else MAX_LISTED
    parts: list[RenderableType] = []
    by_verdict: dict[Verdict, list[SessionVerdict]] = {verdict: [] for verdict in _COLOURS}
    for session in run.sessions:
        if session.verdict in by_verdict:
            by_verdict[session.verdict].append(session)
    if any(by_verdict.values()):
        parts.append(_verdicts_table(by_verdict, limit))
    for verdict, sessions in by_verdict.items():
        if more := len(sessions[len(sessions) if limit is None else limit :]):
            parts.append(Text(f"and {more} more {verdict}; --all lists them"))
    if run.group_by is not None:
        rows = [{run.group_by: name, **counts} for name, counts in run.groups.items()]
        parts.append(table(rows, list(rows[0]) if rows else []))
    if run.metrics:
        parts.append(_metrics_table(run))
    if run.judge_line:
        parts.append(cell(run.judge_line))
    return Group(*parts, cell(str(run)))


def _verdicts_table(by_verdict: Mapping[Verdict, Sequence[SessionVerdict]], limit: int | None) -> Table:
    made = Table("session", "question", "verdict", "reason")
    for verdict, sessions in by_verdict.items():
        for session in sessions[:limit]:
            made.add_row(
                cell(session.session_id or "–"),
                cell(session.question_id or "–"),
                Text(verdict, _COLOURS[verdict]),
                cell(session.reason),
            )
    return made


def _metrics_table(run: Run) -> Table:
    made = Table("metric")
    columns = ["mean", "p50", "p95", "pass_rate", "scores", "inconclusive", "failures"]
    if run.judge_failures:
        columns.append("judge_failures")
    for column in columns:
        made.add_column(column.replace("_", " "), justify="right")
    for name, totals in run.metrics.items():
        row = totals.to_json()
        made.add_row(
            cell(name), *("–" if row[column] is None else f"{row[column]:.6g}" for column in columns)
        )
    return made


def session_lines(s: Session) -> Iterator[tuple[RenderableType, ...]]:
    """Yield what a session did, line by line; a line's parts are printed with a space between them."""
    usage, latency = s.usage, s.latency
    session_id, source, question = map(_line, (s.session_id, s.session_id_source, s.question_id or "–"))
    yield (Text.assemble((session_id, "bold"), f" ({source})  question {question}"),)
    agents, models = ", ".join(s.agents or ("unknown",)), ", ".join(s.models or ("unknown",))
    yield (Text(_line(f"agents {agents}; models {models}")),)
    if s.assembly_error:
        yield (Text(_line(f"could not be assembled: {s.assembly_error}")),)
        return
    cost = (
        f"${s.cost_usd:.6f}{' (estimated)' if s.cost_estimated else ''}"
        if s.cost_usd is not None
        else f"unknown (no price: {_line(s.cost_unknown or 'no usage')})"
    )
    yield (
        Text(
            f"{usage.llm_calls or 'no'} model calls, {_or_unknown(usage.input_tokens)} tokens in "
            f"({_or_unknown(usage.cached_input_tokens)} cached), {_or_unknown(usage.output_tokens)} out "
            f"({_or_unknown(usage.reasoning_tokens)} reasoning), cost {cost}"
        ),
    )
    yield (
        Text(
            f"seconds: {_or_unknown(latency.total_s)}; models {_or_unknown(latency.llm_s)}, "
            f"tools {_or_unknown(latency.tool_s)}, "
            f"framework {_or_unknown(latency.framework_s)}; "
            f"first response after {_or_unknown(latency.first_response_s)}"
        ),
    )
    for turn in s.turns:
        yield (Text.assemble("\n", (f"turn {turn.turn}", "bold"), f"  {_or_unknown(turn.latency_s)} s"),)
        yield "  user   ", cell(turn.user_input, newline=_INDENT)
        for tool in (tool for tool in s.tool_interactions if tool.turn == turn.turn):
            status = {True: "ok", False: "failed", None: "unknown"}[tool.ok]
            kind = "hand-off" if tool.handoff else "tool"
            arguments, output = (
                cell(value, newline=_INDENT) for value in (tool.input_arguments, tool.output)
            )
            yield f"  {kind}   ", cell(tool.tool_name, newline=_INDENT), arguments, "→", output, f"({status})"
        yield "  agent  ", cell(turn.final_response, newline=_INDENT)
    if s.state_variables is not None:
        state = [{"variable": name, "value": value} for name, value in s.state_variables.items()]
        yield (table(state, ("variable", "value"), "state at the end"),)
    if s.errors:
        errors = [{"where": error.where, "message": error.message} for error in s.errors]
        yield (table(errors, ("where", "message"), "errors"),)


def _line(text: str) -> str:
    return printable(text, newline=_INDENT)


def _or_unknown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"
