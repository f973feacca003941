"""report.html: a run in one file that opens from disk, with the sessions that matter whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from spangrade.converters.datasets.files import create_text, writing
from spangrade.evaluator.grading.policy import Verdict
from spangrade.evaluator.view.links import element_id
from spangrade.evaluator.view.run_summary import RunSummary, SessionRow, run_summary
from spangrade.evaluator.view.static_files import (
    Opened,
    ReadSession,
    file_html,
    read_sessions,
    session_html,
)
from spangrade.evaluator.view.texts import TextLimits

MAX_WHOLE = 100  # sessions that are in the file as a whole
MAX_BYTES = 20_000_000  # of these sessions: a browser opens them in a second or two
MAX_ROWS = 5_000  # sessions that are rows

_LIMITS = TextLimits(longest=20_000, items=200, bars=500, rows=100, on_demand=False)
_SHORT = TextLimits(longest=1_000, items=50, bars=100, rows=20, on_demand=False)
_MAX_SESSION_BYTES = 2_000_000  # of one session: a larger one is shortened


class ReportLinks:
    """Links inside of one file, to the sessions that it has."""

    def __init__(self, anchors: dict[str, str]) -> None:
        self._anchors = anchors

    def asset(self, name: str) -> str:  # noqa: ARG002
        """Return no address: style and script are part of the file."""
        return ""

    def sessions(self, **filters: str) -> str:
        """Return the address of the list of sessions, which no address filters."""
        return "" if filters else "#sessions"

    def session(self, session_id: str, span_id: str | None = None, run_id: str | None = None) -> str:  # noqa: ARG002
        """Return the address of a session, or of one of its spans; "" if the file does not have it."""
        anchor = self._anchors.get(session_id)
        if anchor is None:
            return ""
        return f"#{anchor}" if span_id is None else f"#{anchor}-{element_id(span_id)}"

    def part(self, session_id: str, name: str, **values: str) -> str:  # noqa: ARG002
        """Return no address: nothing is loaded."""
        return ""

    def runs(self) -> str:
        """Return no address: the file has one run."""
        return ""

    def run(self, run_id: str) -> str:  # noqa: ARG002
        """Return the address of the run."""
        return "#run"

    def trends(self) -> str:
        """Return no address."""
        return ""

    def compare(self, **chosen: str) -> str:  # noqa: ARG002
        """Return no address."""
        return ""

    def compare_sessions(self, **chosen: str) -> str:  # noqa: ARG002
        """Return no address."""
        return ""


class WholeSession(NamedTuple):
    """A session that is in the file as a whole."""

    row: SessionRow
    anchor: str
    body: Markup


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
    max_bytes: int = MAX_BYTES,
    max_rows: int = MAX_ROWS,
) -> str:
    """Return a run as one HTML file, of bounded size.

    All sessions of a small run are whole. Of a larger one those are that did not pass, the gravest first, as
    far as `max_whole` and `max_bytes` allow; the others are rows, up to `max_rows`.
    """
    with opened() as store:
        run = run_summary(store, run_id, max_rows)
    chosen = _chosen(run, max_whole)
    anchors = {row.session_id or "": f"s{number}" for number, row in enumerate(chosen, 1)}
    links = ReportLinks(anchors)
    sessions = read_sessions(opened, (row.session_id or "" for row in chosen), run.run_id)
    whole: list[WholeSession] = []
    size = 0
    for row in chosen:
        session_id = row.session_id or ""
        read = next(sessions) if size <= max_bytes else None
        body = "" if read is None else _body(read, links)
        if not body or (whole and size + len(body) > max_bytes):
            size = max_bytes + 1
            del anchors[session_id]
            continue
        size += len(body)
        whole.append(WholeSession(row, anchors[session_id], Markup(body)))  # noqa: S704 (rendered)
    values = {**run.page, "summary": run, "whole": whole, "not_passed": _not_passed(run)}
    return file_html("report.html", values, links)


def _body(read: ReadSession, links: ReportLinks) -> str:
    """Return the page of a session, a very large one shortened."""
    prefix = f"{links.session(read.source.session.session_id)[1:]}-"
    for limits in (_LIMITS, _SHORT):
        body = session_html(read, links, limits, prefix)
        if len(body) <= _MAX_SESSION_BYTES:
            break
    return body


def _chosen(run: RunSummary, max_whole: int) -> Sequence[SessionRow]:
    recorded = [row for row in run.rows if row.session_id is not None and row.turns is not None]
    if run.total <= max_whole:
        return recorded
    return [row for row in recorded if row.verdict not in (Verdict.PASSED, Verdict.UNMATCHED)][:max_whole]


def _not_passed(run: RunSummary) -> int:
    """Return how many sessions are broken, failed or inconclusive."""
    return sum(n for verdict, n in run.verdicts.items() if verdict not in (Verdict.PASSED, Verdict.UNMATCHED))
