"""Where the pages are: the links of the server, and texts of any kind as a part of a URL.

Templates take a `Links`, so that they work in files too, without a server.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Protocol
from urllib.parse import urlencode

# Browsers drop the parts "." and "..", and "/" ends a part.
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.:-]*")
_HEX = re.compile(r"[0-9a-f]{16}")
_ENCODED, _HASHED = "~", "~~"
_LONGEST = 1_024  # bytes; servers reject longer lines of a request


class Links(Protocol):
    """The addresses of pages and of the files that they need; "" where there is none."""

    def asset(self, name: str) -> str:
        """Return the address of a file in `static/`."""

    def sessions(self, **filters: str) -> str:
        """Return the address of the list of sessions, with values for its filters."""

    def session(self, session_id: str, span_id: str | None = None, run_id: str | None = None) -> str:
        """Return the address of a session, or of one of its spans, with the verdict of a run."""

    def part(self, session_id: str, name: str, **values: str) -> str:
        """Return the address of a part of a session that is loaded on demand."""

    def runs(self) -> str:
        """Return the address of the list of runs."""

    def run(self, run_id: str) -> str:
        """Return the address of a run."""

    def trends(self, **scope: str) -> str:
        """Return the address of the page of sessions over time, with the header's filters."""

    def compare(self, **chosen: str) -> str:
        """Return the address of the page that compares two runs."""

    def compare_sessions(self, **chosen: str) -> str:
        """Return the address of the page that shows two sessions side by side."""


class FileLinks:
    """The addresses that a file, or each page of a folder of files, has nowhere to lead to.

    It has one run, and all that it will ever show: nothing is loaded.
    """

    def asset(self, name: str) -> str:  # noqa: ARG002
        """Return no address: style and script are part of the file."""
        return ""

    def part(self, session_id: str, name: str, **values: str) -> str:  # noqa: ARG002
        """Return no address: nothing is loaded."""
        return ""

    def runs(self) -> str:
        """Return no address: there is one run."""
        return ""

    def run_rows(self, run_id: str, **filters: str) -> str:  # noqa: ARG002
        """Return what the file's script takes for the address of its rows."""
        return "rows"

    def trends(self, **scope: str) -> str:  # noqa: ARG002
        """Return no address."""
        return ""

    def compare(self, **chosen: str) -> str:  # noqa: ARG002
        """Return no address."""
        return ""

    def compare_sessions(self, **chosen: str) -> str:  # noqa: ARG002
        """Return no address."""
        return ""


@cache
def _digest(asset: str) -> str:
    content = (Path(__file__).parent / "static" / asset).read_bytes()
    return hashlib.blake2b(content, digest_size=8).hexdigest()


_base_path: ContextVar[str] = ContextVar("spangrade_base_path", default="")


def base_path() -> str:
    """Return the path under which the pages of the current request are: empty, or such as `/spangrade`."""
    return _base_path.get()


@contextmanager
def under(path: str) -> Iterator[None]:
    """Make the links of this context those under a path."""
    token = _base_path.set(path)
    try:
        yield
    finally:
        _base_path.reset(token)


class ServerLinks:
    """The links of `spangrade view` and `serve`, under the base path of the request that is answered.

    `kept` are the filters of the header in the address of a page: they go along to pages whose content does
    not depend on them, so that they are there again where it does.
    """

    def __init__(self, kept: Mapping[str, str] = MappingProxyType({})) -> None:
        self._kept = dict(kept)

    def asset(self, name: str) -> str:
        """Return the address of a file in `static/`, another one once it has changed: it may be kept."""
        return f"{base_path()}/static/{name}?{_digest(name)}"

    def sessions(self, **filters: str) -> str:
        """Return the address of the list of sessions, with values for its filters."""
        return f"{base_path()}/sessions{query_of(filters)}"

    def overview(self, **scope: str) -> str:
        """Return the address of the first page, of the sessions of the header's filters."""
        return f"{base_path()}/overview{query_of(scope)}"

    def session(
        self, session_id: str, span_id: str | None = None, run_id: str | None = None, **queue: str
    ) -> str:
        """Return the address of a session, or of one of its spans, with the verdict of a run, in a queue."""
        run = {} if run_id is None else {"run": run_id}
        fragment = "" if span_id is None else f"#{element_id(span_id)}"
        query = query_of({**self._kept, **run, **queue})
        return f"{base_path()}/session/{url_part(session_id)}{query}{fragment}"

    def part(self, session_id: str, name: str, **values: str) -> str:
        """Return the address of a part of a session that is loaded on demand."""
        return f"{base_path()}/session/{url_part(session_id)}/{name}{query_of(values)}"

    def image(self, session_id: str, span_id: str, number: int) -> str:
        """Return the address of an image that a span records, from 0."""
        query = urlencode({"id": span_id, "number": number})
        return f"{base_path()}/session/{url_part(session_id)}/image?{query}"

    def labels(self, session_id: str) -> str:
        """Return the address to which a reviewer sends a label of a session."""
        return f"{base_path()}/session/{url_part(session_id)}/labels"

    def session_file(
        self, session_id: str, kind: str, *, redacted: bool = False, run_id: str | None = None
    ) -> str:
        """Return the address of a session as a file, "html" or "json"."""
        given = {"redacted": "1"} if redacted else {}
        given |= {"run": run_id} if run_id else {}
        return f"{base_path()}/session/{url_part(session_id)}/file.{kind}{query_of(given)}"

    def golden(self, session_id: str) -> str:
        """Return the address of a session as a golden question: to download it, and to add it to the file."""
        return f"{base_path()}/session/{url_part(session_id)}/golden-question"

    def golden_proof(self, session_id: str) -> str:
        """Return the address at which a form of a golden question is tried."""
        return f"{self.golden(session_id)}/proof"

    def review(self, **queue: str) -> str:
        """Return the address of the queue of a reviewer."""
        return f"{base_path()}/review{query_of(queue)}"

    def review_next(self, **queue: str) -> str:
        """Return the address that leads to the next session of a queue."""
        return f"{base_path()}/review/next{query_of(queue)}"

    def undo(self) -> str:
        """Return the address that undoes what a reviewer wrote last."""
        return f"{base_path()}/undo"

    def count(self) -> str:
        """Return the address of the number of the sessions that filters choose."""
        return f"{base_path()}/count"

    def suggestions(self) -> str:
        """Return the address under which the values of filters are."""
        return f"{base_path()}/suggestions"

    def login(self) -> str:
        """Return the address at which one logs in."""
        return f"{base_path()}/login"

    def logout(self) -> str:
        """Return the address that ends a login."""
        return f"{base_path()}/logout"

    def runs(self) -> str:
        """Return the address of the list of runs."""
        return f"{base_path()}/runs{query_of(self._kept)}"

    def run(self, run_id: str) -> str:
        """Return the address of a run."""
        return f"{base_path()}/run/{url_part(run_id)}{query_of(self._kept)}"

    def run_summary(self, run_id: str) -> str:
        """Return the address of the totals of a run."""
        return f"{base_path()}/run/{url_part(run_id)}/summary{query_of(self._kept)}"

    def run_rows(self, run_id: str, **filters: str) -> str:
        """Return the address of rows of the grid of a run."""
        return f"{base_path()}/run/{url_part(run_id)}/rows?{urlencode({**self._kept, **filters})}"

    def live(self) -> str:
        """Return the address that says whether a page would show something new."""
        return f"{base_path()}/live"

    def causes(self) -> str:
        """Return the address of why the sessions of the first page failed."""
        return f"{base_path()}/overview/causes"

    def trends(self, **scope: str) -> str:
        """Return the address of the page of sessions over time, with the header's filters."""
        return f"{base_path()}/trends{query_of(scope)}"

    def judge(self, **metric: str) -> str:
        """Return the address of the page that compares judges with people's labels."""
        return f"{base_path()}/judge{query_of({**self._kept, **metric})}"

    def tools(self, **scope: str) -> str:
        """Return the address of the page of tools and models, with the header's filters."""
        return f"{base_path()}/tools{query_of(scope)}"

    def compare(self, **chosen: str) -> str:
        """Return the address of the page that compares two runs."""
        return f"{base_path()}/compare{query_of({**self._kept, **chosen})}"

    def compare_sessions(self, **chosen: str) -> str:
        """Return the address of the page that shows two sessions side by side."""
        return f"{base_path()}/compare/sessions?{urlencode({**self._kept, **chosen})}"


class SideLinks(ServerLinks):
    """The links of a session beside another: nothing is loaded into the page."""

    def part(self, session_id: str, name: str, **values: str) -> str:  # noqa: ARG002
        """Return no address."""
        return ""


def query_of(values: Mapping[str, str]) -> str:
    """Return values as the query of an address with its question mark, empty without any."""
    return f"?{urlencode(values)}" if values else ""


def url_part(text: str) -> str:
    """Return a text as one part of a URL's path, or as its fragment: always the same for one text.

    Most ids stay as they are. Others become `~` and base64, and the longest `~~` and their SHA-256, from
    which only a search finds them again.
    """
    if _PLAIN.fullmatch(text) and len(text) <= _LONGEST:
        return text
    return _encoded(text)


def _encoded(text: str) -> str:
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) > _LONGEST:
        return _HASHED + hashlib.sha256(encoded).hexdigest()
    return _ENCODED + base64.urlsafe_b64encode(encoded).decode("ascii").rstrip("=")


def text_of(part: str) -> str | None:
    """Return the text that `url_part` made into a part of a URL; None if only its hash is in it.

    Raises ValueError if it did not make it.
    """
    if part.startswith(_HASHED):
        return None
    if not part.startswith(_ENCODED):
        return part
    content = part[len(_ENCODED) :]
    return base64.b64decode(content + "=" * (-len(content) % 4), b"-_", validate=True).decode("utf-8")


def hash_of(part: str) -> str:
    """Return the SHA-256 in a part for which `text_of` returns None."""
    return part.removeprefix(_HASHED)


def element_id(span_id: str) -> str:
    """Return the id of the element that shows a span: `span-` and its own; `Links.session` leads to it."""
    return f"span-{span_id if _HEX.fullmatch(span_id) else _encoded(span_id)}"
