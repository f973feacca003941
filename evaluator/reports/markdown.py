"""A run as Markdown for a comment on a pull request or the summary of a CI job.

All recorded text is in code spans, in which nothing is markup, a link or a mention.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType

from spangrade.evaluator.grading.run import Run, SessionVerdict
from spangrade.evaluator.grading.verdict import PRECEDENCE, Verdict
from spangrade.evaluator.reports.headline import as_markdown, head_of_run
from spangrade.evaluator.reports.repeats import (
    FLAKY_COLUMNS,
    RATE_COLUMNS,
    condition_line,
    flaky_rows,
    more_flaky,
    rate_rows,
    repeats_line,
)
from spangrade.evaluator.reports.tables import metric_rows
from spangrade.evaluator.statistics.repeats.repeats import Repeats
from spangrade.tracer.base.errors import ExitCode
from spangrade.tracer.base.terminal import printable

# The most of these, and the most characters of each: well below GitHub's 65,536 characters in a comment.
MAX_SESSIONS = 50
MAX_METRICS = 50
MAX_GROUPS = 50
MAX_REASON = 400
MAX_NAME = 100

_OUTCOMES = {
    ExitCode.PASSED: "passed",
    ExitCode.FAILED: "failed",
    ExitCode.BAD_INPUT: "some of the input could not be read",
    ExitCode.BROKEN: "broken",
    ExitCode.INCONCLUSIVE: "inconclusive",
}
_GRAVEST_FIRST = (*PRECEDENCE, *(v for v in Verdict if v not in PRECEDENCE and v is not Verdict.PASSED))


def markdown(run: Run, places: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a run's totals, the sessions that did not pass, and the metrics, in bounded length.

    `places` say by the ids of the `sessions_shown` where their gates failed.
    """
    return "\n".join(_lines(run, places))


def sessions_shown(run: Run) -> Iterator[SessionVerdict]:
    """Yield the sessions and questions that did not pass, the gravest first, as far as they are shown."""
    return islice(_not_passed(run), MAX_SESSIONS)


def _lines(run: Run, places: Mapping[str, str]) -> Iterator[str]:
    name = f" {code(run.name)}" if run.name else ""
    yield f"## spangrade{name}: {_OUTCOMES[run.exit_code]}"
    yield ""
    yield as_markdown(head_of_run(run))
    yield ""
    dataset = f"Dataset {code(run.dataset)}" if run.dataset else "No dataset"
    yield f"{dataset}, run {code(run.run_id)}, exit code {int(run.exit_code)}."
    yield from ("", "<details><summary>All of the run</summary>")
    not_passed = sum(session.verdict is not Verdict.PASSED for session in run.sessions)
    if not_passed:
        yield from ("", "### Not passed", "")
        yield from (_session_line(one, places.get(one.session_id or "", "")) for one in sessions_shown(run))
        if not_passed > MAX_SESSIONS:
            yield f"- and {not_passed - MAX_SESSIONS} more"
    if run.group_by is not None:
        yield from ("", f"### By {code(run.group_by)}", "")
        yield from _groups_table(run)
    if run.shown_metrics:
        yield from ("", "### Metrics", "")
        yield from _metrics_table(run)
    if run.repeats is not None:
        yield from _repeats(run.repeats)
    yield from ("", "</details>", "")


def _not_passed(run: Run) -> Iterator[SessionVerdict]:
    for verdict in _GRAVEST_FIRST:
        yield from (session for session in run.sessions if session.verdict is verdict)


def _session_line(session: SessionVerdict, where: str) -> str:
    name = "no session" if session.session_id is None else code(session.session_id)
    question = "" if session.question_id is None else f", question {code(session.question_id)}"
    why = f"{where}: {session.reason}" if where else session.reason
    return f"- **{session.verdict}** {name}{question}: {code(why, MAX_REASON)}"


def _metrics_table(run: Run) -> Iterator[str]:
    headings, *rows = metric_rows(run)
    shown = ((code(name), *values) for name, *values in rows[:MAX_METRICS])
    yield from table_lines(headings, shown, numbers=len(headings) - 1)
    if len(rows) > MAX_METRICS:
        yield f"\nand {len(rows) - MAX_METRICS} more metrics"


def _repeats(repeats: Repeats) -> Iterator[str]:
    yield from ("", "### Repeats", "", code(repeats_line(repeats), MAX_REASON), "")
    yield from _table(RATE_COLUMNS, rate_rows(repeats))
    yield from ("", code(condition_line(repeats), MAX_REASON))
    if repeats.flaky:
        yield from ("", f"### Flaky: {len(repeats.flaky)}", "")
        yield from _table(FLAKY_COLUMNS, flaky_rows(repeats))
        yield from ("", more_flaky(repeats))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    return table_lines(columns, ([code(text, MAX_REASON) for text in row] for row in rows))


def _groups_table(run: Run) -> Iterator[str]:
    columns = [column.replace("_", " ") for column in next(iter(run.groups.values()), {})]
    groups = islice(run.groups.items(), MAX_GROUPS)
    rows = ((code(name), *map(str, counts.values())) for name, counts in groups)
    yield from table_lines(["group", *columns], rows, numbers=len(columns))
    if len(run.groups) > MAX_GROUPS:
        yield f"\nand {len(run.groups) - MAX_GROUPS} more groups"


def table_lines(columns: Iterable[str], rows: Iterable[Iterable[str]], *, numbers: int = 0) -> Iterator[str]:
    """Yield the lines of a table of cells in Markdown; the last columns, of `numbers`, go to the right."""
    names = list(columns)
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * (len(names) - numbers)}{'---:|' * numbers}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def code(text: str, limit: int = MAX_NAME) -> str:
    """Return text as a code span of one line; what could end the span or a cell is replaced."""
    text = " ".join(printable(text, newline=" ").split()).replace("`", "'").replace("|", "¦")
    if len(text) > limit:
        text = f"{text[: limit - 1]}…"
    return f"`{text}`" if text else "–"
