"""Pages as files that need neither a server nor a network: style and script are part of each."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cache
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

from markupsafe import Markup

from spangrade.evaluator.maintenance.lint import lint
from spangrade.evaluator.view.links import Links
from spangrade.evaluator.view.rendering import FOLDER, render
from spangrade.evaluator.view.session_page import SpanField, page_of, span_fields
from spangrade.evaluator.view.session_source import (
    SessionSource,
    session_source,
    span_records,
    spans_of_session,
    state_changes,
)
from spangrade.evaluator.view.texts import Limits
from spangrade.tracer.errors import InputError
from spangrade.tracer.store import Store

_STYLES = ("style.css", "session.css", "report.css")
_SCRIPTS = ("page.js", "session.js", "report.js")
_RAW_SPANS = 200  # of a session whose spans' attributes are part of its file
_RAW_LONGEST = 2_000  # characters of an attribute
_AT_ONCE = 10  # sessions that are read in one window: to open the database takes half as long as to read one

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


def read_sessions(opened: Opened, session_ids: Iterable[str], run_id: str) -> Iterator[ReadSession | None]:
    """Yield each session with the grade of a run; None for one that has been deleted."""
    ids = iter(session_ids)
    while window := list(islice(ids, _AT_ONCE)):
        with opened() as store:
            read = [_read_session(store, session_id, run_id) for session_id in window]
        yield from read


def _read_session(store: Store, session_id: str, run_id: str) -> ReadSession | None:
    try:
        source = session_source(store, session_id, run_id)
    except InputError:
        return None
    if source.state_changes is None:  # nothing is loaded on demand
        source = source._replace(
            spans=spans_of_session(store, session_id),
            state_changes=state_changes(store, session_id),
            findings=tuple(lint(store, session_id, source.session)),
        )
    small = source.span_count <= _RAW_SPANS
    records = span_records(store, session_id) if small else ()
    return ReadSession(source, {record["span_id"]: span_fields(record, _RAW_LONGEST) for record in records})


def session_html(read: ReadSession, links: Links, limits: Limits, prefix: str = "") -> str:
    """Return the body of a session's page as it is in a file."""
    values: Mapping[str, Any] = {
        "page": page_of(read.source, limits),
        "session_id": read.source.session.session_id,
        "prefix": prefix,
        "details": read.details,
    }
    return render("session_body.html", values, links)


def file_html(template: str, values: Mapping[str, Any], links: Links) -> str:
    """Return a whole file."""
    return render(template, {"assets": assets(), **values}, links)
