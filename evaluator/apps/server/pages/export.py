"""A run as a folder of pages with relative links, which opens from disk and from any web server."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from pathlib import Path

from spangrade.converters.datasets.files import create_text, replacing, writing
from spangrade.evaluator.derive.sync.up_to_date import RUN_WAIT_S
from spangrade.evaluator.grading.run_list import LATEST, find_run_id
from spangrade.evaluator.reports.html.grid_page import grid_page
from spangrade.evaluator.reports.html.links import FileLinks, element_id, url_part
from spangrade.evaluator.reports.html.report import run_html
from spangrade.evaluator.reports.html.run_summary import SessionRow, run_summary
from spangrade.evaluator.reports.html.static_files import (
    Opened,
    ReadSession,
    read_sessions,
    session_html,
)
from spangrade.evaluator.reports.html.texts import TextLimits
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.store.store import Stored

MAX_SESSIONS = 20_000  # that have a page, and the most questions in the index

LIMITS = TextLimits(longest=100_000, items=2_000, bars=2_000, on_demand=False)
_SHORT = TextLimits(longest=4_000, items=200, bars=500, on_demand=False)
_MAX_PAGE_BYTES = 10_000_000  # a larger page is shortened
_LONGEST_NAME = 100  # characters; file systems end at 255 bytes


class SiteLinks(FileLinks):
    """Links between the pages of a folder, from one that is `root` away from the index."""

    def __init__(self, root: str, exported: frozenset[str]) -> None:
        self._root = root
        self._exported = exported

    def sessions(self, **filters: str) -> str:
        """Return the address of the grid, which no address filters."""
        return "" if filters else f"{self._root}index.html#questions"

    def session(self, session_id: str, span_id: str | None = None, run_id: str | None = None) -> str:  # noqa: ARG002
        """Return the address of a session, or of one of its spans; "" if it has no page."""
        if session_id not in self._exported:
            return ""
        fragment = "" if span_id is None else f"#{element_id(span_id)}"
        return f"{self._root}session/{file_name(session_id)}{fragment}"

    def run(self, run_id: str) -> str:  # noqa: ARG002
        """Return the address of the run."""
        return f"{self._root}index.html"


def file_name(session_id: str) -> str:
    """Return the name of the file of a session: its id where a file can have it, else a hash."""
    name = url_part(session_id)
    if len(name) > _LONGEST_NAME or ":" in name or name.startswith("~") or name != name.lower():
        name = f"~{sha256(session_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
    return f"{name}.html"


def export_run(exported: Stored, folder: Path, run_id: str | None = None) -> int:
    """Write the pages of a run of a database file or a lake, by its name or id, of the latest one without.

    Return how many sessions have a page.

    Raises InputError if the folder is not empty or cannot be written, or if there is no such run.
    """
    with exported.reading() as store:
        run_id = find_run_id(store, run_id or LATEST)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(f"{folder}: it is not empty: name a new folder")
        with replacing(folder) as new:
            return _write(partial(exported.reading, derived=False, wait_s=RUN_WAIT_S), new, run_id)


def _write(opened: Opened, folder: Path, run_id: str | None) -> int:
    with opened() as store:
        run = run_summary(store, run_id, MAX_SESSIONS)
        grid = grid_page(store, run.run_id, {}, MAX_SESSIONS)
    rows = [row for row in run.rows if row.session_id is not None and row.turns is not None]
    exported = frozenset(row.session_id for row in rows if row.session_id is not None)
    (folder / "session").mkdir()
    links = SiteLinks("../", exported)
    sessions = read_sessions(opened, [row.session_id or "" for row in rows], run.run_id)
    for row, read in zip(rows, sessions, strict=True):
        if read is not None:  # else it was deleted in between
            _write_session(read, row, run.run_id, links, folder)
    create_text(folder / "index.html", run_html(run, grid, SiteLinks("", exported)))
    return len(rows)


def _write_session(read: ReadSession, row: SessionRow, run_id: str, links: SiteLinks, folder: Path) -> None:
    for limits in (LIMITS, _SHORT):
        page = session_html(read, links, limits, template="export_session.html", run_id=run_id)
        if len(page) <= _MAX_PAGE_BYTES:
            break
    create_text(folder / "session" / file_name(row.session_id or ""), page)
