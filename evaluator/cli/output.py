"""Printing: tables for people, JSON alone for programs, problems and progress on standard error."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TextIO, cast

from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.terminal import print_line, printable, printable_json, warn

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from spangrade import Database, ExitCode, Run
    from spangrade.evaluator.agents.earlier import FlippedSince
    from spangrade.evaluator.apps.server.grade.send_scores import SentScores
    from spangrade.evaluator.results.scores_to import ScoresTo
    from spangrade.evaluator.statistics.comparison.condition import Compared
    from spangrade.tracer.span import Problem

MAX_LISTED = 20  # problems; the others are counted
_PROGRESS_AFTER_S = 2.0
_PADDING = re.compile(r" +(?=\n)")


def print_json(value: Any) -> None:
    """Print a value as JSON, and nothing else."""
    sys.stdout.buffer.write(f"{printable_json(dumps(value, indent=True))}\n".encode())
    sys.stdout.flush()


class _Unpadded(io.TextIOBase):
    """Standard output, without the spaces that rich fills lines up with."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of standard output."""
        return sys.stdout.encoding

    def write(self, text: str) -> int:
        """Write lines, which rich gives whole."""
        sys.stdout.write(_PADDING.sub("", text))
        return len(text)

    def flush(self) -> None:
        """Flush standard output."""
        sys.stdout.flush()


def console() -> Console:
    """Return a console on standard output; piped, it neither wraps at 80 columns nor pads lines."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(width=200, highlight=False, file=cast("TextIO", _Unpadded()))


def show(*parts: RenderableType) -> None:
    """Print tables and texts for people."""
    console().print(*parts)


def show_run(
    opened: Database,
    run: Run,
    compared: Compared | None = None,
    flips: FlippedSince | None = None,
    *,
    code: ExitCode | None = None,
    every: bool = False,
    again: str = "",
) -> None:
    """Print the ten lines of a run, and of a comparison with it; with `every`, all else that they have."""
    from spangrade.evaluator.reports.headline import head_of_run, shown
    from spangrade.evaluator.reports.tables import run_tables

    more = _database_option(opened)
    if compared is None:
        lines = head_of_run(run, flips, stored=opened.stored, code=code, more=more, again=again)
    else:
        from spangrade.evaluator.reports.comparison_head import head_of_compared_run

        lines = head_of_compared_run(run, compared, stored=opened.stored, code=code, more=more, again=again)
    out = console()
    out.print(shown(lines), soft_wrap=True)
    if (tables := run_tables(run, every=every)) is not None:
        out.print(tables)
    if every and compared is not None:
        _print_all(out, opened, compared)


def sent_scores(opened: Database, run: Run, to: ScoresTo) -> SentScores | None:
    """Send the scores of a run where the command says, and return what was sent; None if it says nowhere.

    The run is stored whatever the receiver answers: one that does not accept them is a warning.
    """
    if to.send is None:
        return None
    sent = opened.send_scores(run, to.send, dry_run=to.send_dry_run)
    if sent.error:
        warn(str(sent))
    return sent


def show_sent(sent: SentScores | None) -> None:
    """Print what was sent of a run, and the events of a dry run, a line each."""
    if sent is not None and not sent.error:
        for event in sent.events:
            print_lines(dumps(event))
        print_line(str(sent))


def show_comparison(opened: Database, compared: Compared, code: ExitCode, *, every: bool) -> None:
    """Print the ten lines of a comparison; with `every`, all else that it has."""
    from spangrade.evaluator.reports.comparison_head import head_of_comparison
    from spangrade.evaluator.reports.headline import shown

    out = console()
    out.print(shown(head_of_comparison(compared, code, opened.stored)), soft_wrap=True)
    if every:
        _print_all(out, opened, compared)


def _print_all(out: Console, opened: Database, compared: Compared) -> None:
    from spangrade.evaluator.reports.comparison import comparison_tables
    from spangrade.evaluator.reports.flips import flip_lines, flips_of

    if flips := flips_of(compared.comparison):
        out.print(flip_lines(flips, opened.stored))
    out.print(comparison_tables(*compared))


def _database_option(opened: Database) -> str:
    """Return the option that names a database, for a proposed command; empty for the default."""
    from spangrade.evaluator.database import default_path

    is_named = opened.path != default_path() and opened.path.exists()  # the catalog of a lake is no file
    return f" --db {quote(str(opened.path))}" if is_named else ""


def print_lines(text: str) -> None:
    """Print the lines of a text as they are, none of them wrapped; nothing for an empty text."""
    for line in text.splitlines():
        sys.stdout.write(f"{printable(line)}\n")


def print_table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print rows as a table."""
    from spangrade.evaluator.reports.tables import table

    show(table(rows, columns))


def note_origins(opened: Database, origin: str | None) -> None:
    """Note how many sessions of other origins than production a command leaves out.

    An `origin` of None is production, or any as long as there is none.
    """
    counts = opened.count_origins()
    production = counts.pop("production", 0)
    if counts and (origin == "production" or (origin is None and production)):
        others = ", ".join(f"{number} {name}" for name, number in counts.items())
        warn(f"production only, without other sessions ({others}): --where origin:any takes all")


def warn_not_understood(spans_by_scope: Mapping[str, int]) -> None:
    """Warn of spans that look like an agent's and that no dialect understood, given their number by scope."""
    for scope, number in spans_by_scope.items():
        spans = f"{number} {'span' if number == 1 else 'spans'}"
        where = f"of scope `{scope}`" if scope else "without a scope"
        was = "was" if number == 1 else "were"
        warn(f"{spans} {where} {was} not understood; what helps: spangrade lint")


@contextmanager
def database(path: Path | None, workers: int | None = 1) -> Iterator[Database]:
    """Give a database whose problems are listed on standard error, and whose progress is shown there.

    `workers` processes grade its sessions; None is as many as pay.
    """
    import spangrade

    with _heard() as heard:
        yield spangrade.open(path, **heard, workers=workers)


@contextmanager
def _heard() -> Iterator[dict[str, Any]]:
    """Give the callbacks of a database: problems are listed on standard error, and progress is shown."""
    problems = 0

    def on_problem(problem: Problem) -> None:
        nonlocal problems
        problems += 1
        if problems <= MAX_LISTED:
            warn(f"{problem.where}: {problem.message}")

    with _progress() as (on_progress, on_share):
        yield {"on_problem": on_problem, "on_progress": on_progress, "on_share": on_share}
    if problems > MAX_LISTED:
        warn(f"and {problems - MAX_LISTED} more that could not be read well")


@contextmanager
def database_or_lake(path: Path | None, lake: str | None, workers: int | None = 1) -> Iterator[Database]:
    """Give the lake of a catalog or, without one, the database as `database` does."""
    if lake is None:
        with database(path, workers) as opened:
            yield opened
    else:
        from spangrade.evaluator.database import open_lake

        with _heard() as heard:
            yield open_lake(lake, **heard, workers=workers)


@contextmanager
def _progress() -> Iterator[tuple[Callable[[str], None], Callable[[float], None]]]:
    """Show the step that is under way and how much of it is done, at a terminal and after two seconds."""
    if not sys.stderr.isatty():
        yield lambda step: None, lambda share: None  # noqa: ARG005
        return
    from threading import Timer

    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    shown = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = shown.add_task("", total=None)
    timer = Timer(_PROGRESS_AFTER_S, shown.start)
    timer.start()
    try:
        yield (
            lambda step: shown.update(task, description=step, total=None),
            lambda share: shown.update(task, total=1, completed=share),
        )
    finally:
        timer.cancel()
        timer.join()
        shown.stop()
