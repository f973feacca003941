"""report.html: the grid of a run and its sessions in one file that opens from disk.

The first rows of the grid are HTML; the others, and the sessions, are embedded compressed, in groups that the
page's script reads when they come into view: 1,000 sessions of a dozen spans are 2.5 MB.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from markupsafe import Markup

from spangrade.converters.datasets.files import create_text, writing
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.reports.html.grid_page import ROWS, GridRow, grid_page
from spangrade.evaluator.reports.html.links import FileLinks, Links, element_id
from spangrade.evaluator.reports.html.rendering import render
from spangrade.evaluator.reports.html.run_summary import RunSummary, SessionRow, run_summary
from spangrade.evaluator.reports.html.static_files import (
    Opened,
    ReadSession,
    file_html,
    read_sessions,
    session_html,
)
from spangrade.evaluator.reports.html.texts import TextLimits

MAX_WHOLE = 1_000  # sessions that are in the file as a whole
MAX_OTHERS = 100  # up to which those are that passed as before: to write one takes as long as to grade ten
MAX_BYTES = 4_500_000  # of these sessions as they are in the file, compressed and in base64
MAX_DETAILED = 20  # of them that have their golden question and the attributes of spans: two thirds of one
MAX_ROWS = 5_000  # rows of the grid

_LIMITS = TextLimits(longest=20_000, items=200, bars=500, on_demand=False)
_SHORT = TextLimits(longest=1_000, items=50, bars=100, with_golden=False, on_demand=False)
_MAX_SESSION_BYTES = 2_000_000  # of the HTML of one session: a larger one is shortened
_GROUP_BYTES = 500_000  # of HTML: a browser reads a group in a few milliseconds
_LEVEL = 6  # of gzip: 9 takes three times as long for 2% less


class ReportLinks(FileLinks):
    """Links inside of one file, to the sessions that it has."""

    def __init__(self, anchors: dict[str, str]) -> None:
        self._anchors = anchors

    def sessions(self, **filters: str) -> str:
        """Return the address of the grid, which no address filters."""
        return "" if filters else "#questions"

    def session(self, session_id: str, span_id: str | None = None, run_id: str | None = None) -> str:  # noqa: ARG002
        """Return the address of a session, or of one of its spans; "" if the file does not have it."""
        anchor = self._anchors.get(session_id)
        if anchor is None:
            return ""
        return f"#{anchor}" if span_id is None else f"#{anchor}-{element_id(span_id)}"

    def run(self, run_id: str) -> str:  # noqa: ARG002
        """Return the address of the run."""
        return "#run"


class EmbeddedGroup(NamedTuple):
    """Parts of the file that are read together: HTML texts in a JSON list, compressed, in base64."""

    kind: str
    first: int
    length: int
    content: str


class WholeSessions(NamedTuple):
    """The sessions that are in the file as a whole; `detailed` of them have all their tables."""

    groups: tuple[EmbeddedGroup, ...]
    sessions: int
    detailed: int


def write_report(opened: Opened, run_id: str, file: Path) -> None:
    """Write a run of a database as one file. Raises InputError if it cannot be written."""
    html = report_html(opened, run_id)
    with writing(file):
        create_text(file, html)


def report_html(
    opened: Opened,
    run_id: str,
    *,
    max_whole: int = MAX_WHOLE,
    max_others: int = MAX_OTHERS,
    max_bytes: int = MAX_BYTES,
    max_detailed: int = MAX_DETAILED,
    max_rows: int = MAX_ROWS,
) -> str:
    """Return a run as one HTML file, of bounded size.

    Whole are those sessions that did not pass, the gravest first, then those whose question changed against
    the baseline, as far as `max_whole` and `max_bytes` allow; the others only up to `max_others` in all.
    """
    with opened() as store:
        run = run_summary(store, run_id, max(max_whole, max_rows))
        grid = grid_page(store, run.run_id, {}, max_rows)
    chosen = _chosen(run, grid["rows"], max_whole, max_others)
    links = ReportLinks({one: f"s{number}" for number, one in enumerate(chosen)})
    whole = _whole(opened, chosen, links, run.run_id, max_bytes, max_detailed)
    links = ReportLinks({one: f"s{number}" for number, one in enumerate(chosen[: whole.sessions])})
    return run_html(run, grid, links, whole)


def run_html(
    run: RunSummary, grid: Mapping[str, Any], links: Links, whole: WholeSessions | None = None
) -> str:
    """Return the file of a run: its grid, its summary, and the sessions that are whole in it.

    None if the sessions have files of their own.
    """
    rows: Sequence[GridRow] = grid["rows"]
    shown = {
        **grid,
        "sessions_of": _repeats(run),
        "whole": whole,
        "rows_in_file": len(rows),
        "questions": grid["total"],
    }
    parts = [
        (first, render("grid_rows.html", {**shown, "rows": rows[first : first + ROWS], "skip": first}, links))
        for first in range(ROWS, len(rows), ROWS)
    ]
    html = render("report_grid.html", {**shown, "rows": rows[:ROWS], "total": len(rows)}, links)
    values = {
        **run.page,
        "summary": run,
        "too_large": grid["too_large"],
        "grid": Markup(html),  # noqa: S704 (rendered)
        "groups": (
            *(_group("rows", first, ROWS, [part]) for first, part in parts),
            *(whole.groups if whole else ()),
        ),
    }
    return file_html("report.html", values, links)


def _chosen(run: RunSummary, rows: Sequence[GridRow], max_whole: int, max_others: int) -> list[str]:
    """Return the sessions that are to be whole, those first that a reader looks for."""
    changed = {
        row.key
        for row in rows
        if row.before is not None and (row.before, row.share_before) != (row.verdict, row.share)
    }
    recorded = [row for row in run.rows if row.session_id is not None and row.turns is not None]

    def place(row: SessionRow) -> int:
        if row.verdict not in (Verdict.PASSED, Verdict.UNMATCHED):
            return 0
        return 1 if (row.question_id or row.session_id) in changed else 2

    recorded.sort(key=place)
    most = min(max_whole, max(max_others, sum(place(row) < 2 for row in recorded)))
    return [row.session_id or "" for row in recorded[:most]]


def _repeats(run: RunSummary) -> Mapping[str, Sequence[str]]:
    """Return the sessions of each question that has several."""
    sessions: dict[str, list[str]] = {}
    for row in run.rows:
        if row.session_id is not None and row.question_id is not None:
            sessions.setdefault(row.question_id, []).append(row.session_id)
    return {question: ids for question, ids in sessions.items() if len(ids) > 1}


def _whole(
    opened: Opened, chosen: Sequence[str], links: ReportLinks, run_id: str, max_bytes: int, max_detailed: int
) -> WholeSessions:
    """Return as many of the sessions as `max_bytes` allow, one at least."""
    read = read_sessions(opened, chosen, run_id, max_detailed)
    groups: list[EmbeddedGroup] = []
    first = size = 0
    for bodies in _in_groups(_bodies(read, links, max_detailed)):
        group = _group("session", first, len(bodies), bodies)
        size += len(group.content)
        if groups and size > max_bytes:
            break
        groups.append(group)
        first += len(bodies)
    return WholeSessions(tuple(groups), first, min(first, max_detailed))


def _bodies(read: Iterable[ReadSession | None], links: ReportLinks, max_detailed: int) -> Iterator[str]:
    """Yield the pages of sessions, "" for one that was deleted in between, a very large one shortened."""
    for number, one in enumerate(read):
        body = ""
        for limits in (_LIMITS if number < max_detailed else _LIMITS._replace(with_golden=False), _SHORT):
            if one is not None:
                body = session_html(one, links, limits, f"s{number}-")
            if len(body) <= _MAX_SESSION_BYTES:
                break
        yield body


def _in_groups(bodies: Iterable[str]) -> Iterator[list[str]]:
    group: list[str] = []
    for body in bodies:
        group.append(body)
        if sum(map(len, group)) >= _GROUP_BYTES:
            yield group
            group = []
    if group:
        yield group


def _group(kind: str, first: int, length: int, parts: Sequence[str]) -> EmbeddedGroup:
    packed = gzip.compress(orjson.dumps(parts), _LEVEL, mtime=0)
    return EmbeddedGroup(kind, first, length, base64.b64encode(packed).decode("ascii"))
