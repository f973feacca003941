"""Pages as files that need neither a server nor a network: style and script are part of each."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cache
from hashlib import sha256
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
from spangrade.tracer.store import Store

_STYLES = ("style.css", "session.css", "report.css")
_SCRIPTS = ("page.js", "session.js", "report.js")
_RAW_SPANS = 200  # of a session whose spans' attributes are part of its file
_RAW_LONGEST = 2_000  # characters of an attribute

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


def read_session(opened: Opened, session_id: str, run_id: str) -> ReadSession:
    """Return a session with the grade of a run. Raises InputError if there is no such session."""
    with opened() as store:
        source = session_source(store, session_id, run_id)
        if source.state_changes is None:  # nothing is loaded on demand
            source = source._replace(
                spans=spans_of_session(store, session_id),
                state_changes=state_changes(store, session_id),
                findings=tuple(lint(store, session_id)),
            )
        small = source.span_count <= _RAW_SPANS
        records = list(span_records(store, session_id)) if small else []
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
