"""Pages as files that need neither a server nor a network: style and script are part of each."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from hashlib import sha256
from itertools import accumulate
from typing import Any, NamedTuple

from markupsafe import Markup

from spangrade.evaluator.derive.sync.recorded import Row
from spangrade.evaluator.reports.html.links import Links
from spangrade.evaluator.reports.html.rendering import FOLDER, render
from spangrade.evaluator.reports.html.session_page import SpanField, page_of, span_fields
from spangrade.evaluator.reports.html.session_source import (
    SessionSource,
    json_record,
    record_counts,
    session_sources,
)
from spangrade.evaluator.reports.html.texts import TextLimits
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

_STYLES = ("style.css",)
_SCRIPTS = ("page.js", "report.js", "session.js", "grid.js")
_RAW_SPANS = 200  # of a session whose spans' attributes are part of its file
_RAW_LONGEST = 2_000  # characters of an attribute
_ATTRIBUTES, _EVENTS = map(Span._fields.index, ("attributes", "events"))
# What is read in one window: to open the database and its 30 statements take as long as 100 sessions.
_FIRST_AT_ONCE = 100  # sessions, until it is known how long theirs are
_AT_ONCE = 1_000
_SPANS_AT_ONCE = 10_000
_LENGTH_AT_ONCE = 50_000_000  # characters of spans: 1,000 sessions of a dozen have a quarter

# Opens the database: for one window each, so that others can write in between.
Opened = Callable[[], AbstractContextManager[Store]]


class Assets(NamedTuple):
    """The style and the script of a file, and the policy that allows these and nothing else."""

    style: Markup
    script: Markup
    policy: str


@cache
def assets() -> Assets:
    """Return the assets that each file contains."""
    style, script = (
        "".join((FOLDER / "static" / name).read_text(encoding="utf-8") for name in names)
        for names in (_STYLES, _SCRIPTS)
    )
    policy = (
        f"default-src 'none'; script-src {_hashed(script)}; style-src {_hashed(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return Assets(Markup(style), Markup(script), policy)  # noqa: S704 (our own files)


def _hashed(text: str) -> str:
    digest = base64.b64encode(sha256(text.encode()).digest()).decode("ascii")
    return f"'sha256-{digest}'"


class ReadSession(NamedTuple):
    """A session with the fields of its spans, by span id; those of a large one are left out."""

    source: SessionSource
    details: Mapping[str, tuple[SpanField, ...]]


def read_sessions(
    opened: Opened, session_ids: Sequence[str], run_id: str, detailed: int | None = None
) -> Iterator[ReadSession | None]:
    """Yield each session with the grade of a run; None for one that has been deleted.

    Those after the first that are `detailed` lack the fields of their spans.
    """
    left, at_once = list(session_ids), _FIRST_AT_ONCE
    with_details = frozenset(left[:detailed])
    while left:
        with opened() as store:
            read, length = _read_window(store, left[:at_once], run_id, with_details)
        del left[: len(read)]
        at_once = min(_AT_ONCE, max(1, len(read) * _LENGTH_AT_ONCE // max(1, length)))
        yield from read


def _read_window(
    store: Store, session_ids: Sequence[str], run_id: str, with_details: Collection[str]
) -> tuple[list[ReadSession | None], int]:
    """Read the first of some sessions in one window: as many as have few spans together, at least one.

    The number is how long their spans are, in characters.
    """
    counts = record_counts(store, session_ids)
    sums = accumulate(counts.get(one, 0) for one in session_ids)
    window = session_ids[: max(1, sum(number <= _SPANS_AT_ONCE for number in sums))]
    details: dict[str, dict[str, tuple[SpanField, ...]]] = {one: {} for one in window}
    length = 0

    def read_span(session_id: str, row: Row) -> None:
        nonlocal length
        length += len(row[_ATTRIBUTES]) + len(row[_EVENTS])
        if session_id in with_details and len(details[session_id]) <= _RAW_SPANS:
            record = json_record(row)
            details[session_id][record["span_id"]] = span_fields(record, _RAW_LONGEST)

    sources = session_sources(store, window, run_id, on_span=read_span)
    read = [
        ReadSession(source, details[one] if source.span_count <= _RAW_SPANS else {})
        if (source := sources.get(one))
        else None
        for one in window
    ]
    return read, length


def session_html(
    read: ReadSession,
    links: Links,
    limits: TextLimits,
    prefix: str = "",
    template: str = "report_session.html",
    run_id: str = "",
) -> str:
    """Return a session as it is in a file of several or, by `export_session.html`, as a file of its own.

    `run_id` is the run to whose page that leads, "" if there is none.
    """
    values: Mapping[str, Any] = {
        "page": page_of(read.source, limits),
        "session_id": read.source.session.session_id,
        "prefix": prefix,
        "details": read.details,
        "run_id": run_id,
    }
    return file_html(template, values, links)


def file_html(template: str, values: Mapping[str, Any], links: Links) -> str:
    """Return a whole file."""
    return render(template, {"assets": assets(), **values}, links)
