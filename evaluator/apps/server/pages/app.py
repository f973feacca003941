"""The pages over HTTP: routes, errors, and what protects them from other sites and from what was recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from os import PathLike, stat_result
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spangrade.evaluator.apps.server.pages.compare_page import compare_page, compare_sessions_page
from spangrade.evaluator.apps.server.pages.database import UpgradingError, Viewed
from spangrade.evaluator.apps.server.pages.golden_form import ProvedQuestion, form_part, tried
from spangrade.evaluator.apps.server.pages.judge_page import judge_page
from spangrade.evaluator.apps.server.pages.labelling import MAX_BYTES, Reviewer
from spangrade.evaluator.apps.server.pages.overview_page import causes_part, overview_page
from spangrade.evaluator.apps.server.pages.review_page import names_of_scores, next_to_review, review_page
from spangrade.evaluator.apps.server.pages.session_file import session_file
from spangrade.evaluator.apps.server.pages.tools_page import tools_page
from spangrade.evaluator.apps.server.pages.trends_page import trends_page
from spangrade.evaluator.grading.run_list import find_run_id
from spangrade.evaluator.reports.html.filters import SCOPE, given_scope, header_elsewhere, line_of
from spangrade.evaluator.reports.html.grid_page import grid_page, grid_part
from spangrade.evaluator.reports.html.links import ServerLinks, hash_of, query_of, text_of, url_part
from spangrade.evaluator.reports.html.rendering import FOLDER, add_templates, render
from spangrade.evaluator.reports.html.run_page import run_page, runs_page
from spangrade.evaluator.reports.html.session_page import golden, image_of, session_page, session_part
from spangrade.evaluator.reports.html.session_source import stored_session
from spangrade.evaluator.reports.html.sessions_page import (
    SEARCH,
    SUGGESTIONS,
    count_page,
    empty_page,
    sessions_page,
    suggestions,
)
from spangrade.tracer.base.errors import InputError, StoreError, StoreLockedError
from spangrade.tracer.base.sockets import host_of, is_loopback
from spangrade.tracer.store import Store

# Templates of this folder stand on those of reports.
add_templates(Path(__file__).with_name("templates"))

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_MOST_FIELDS = 500  # of a form
_QUEUE = ("queue", "seed", "among", *SCOPE)  # the parameters of a queue, which its pages hand on
_HEADERS = {
    b"content-security-policy": _POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


class Site:
    """Where the pages are served, and to whom: here on this machine alone, to one `reviewer` or none.

    `hosts` are names of others by which they may be asked for; `schemes` those of the addresses from which a
    page may write.
    """

    hosts: frozenset[str] = frozenset()
    schemes: tuple[str, ...] = ("http",)
    problems: Callable[[], Sequence[str]] = tuple  # of the service, for the first page

    def __init__(self, reviewer: Reviewer | None = None) -> None:
        self._reviewer = reviewer

    def reviewer(self) -> Reviewer | None:
        """Return who may write labels in the current request, None if nobody."""
        return self._reviewer

    def login(self) -> str:
        """Return the name of who is logged in, empty if nobody need be."""
        return ""


def create_app(database: Viewed, reviewer: Reviewer | None = None, site: Site | None = None) -> Starlette:
    """Return the application that serves the pages of a database or a lake.

    A `reviewer` may write labels from them; without one they change nothing. A `site` says instead who may.
    """
    site = Site(reviewer) if site is None else site
    pages = _Pages(database, site)
    return Starlette(
        routes=[
            Route("/", pages.overview, methods=["GET"]),
            Route("/overview", pages.overview, methods=["GET"]),
            Route("/live", pages.live, methods=["GET"]),
            Route("/overview/causes", pages.causes, methods=["GET"]),
            Route("/sessions", pages.sessions, methods=["GET"]),
            Route("/count", pages.count, methods=["GET"]),
            Route("/suggestions/{filter}", pages.suggestions, methods=["GET"]),
            Route("/session/{session}", pages.session, methods=["GET"]),
            Route("/session/{session}/labels", pages.label, methods=["POST"]),
            Route("/session/{session}/file.{kind}", pages.session_file, methods=["GET"]),
            Route("/session/{session}/golden-question", pages.golden, methods=["GET"]),
            Route("/session/{session}/golden-question", pages.add_golden, methods=["POST"]),
            Route("/session/{session}/golden-question/proof", pages.prove_golden, methods=["POST"]),
            Route("/session/{session}/image", pages.image, methods=["GET"]),
            Route("/session/{session}/{part}", pages.part, methods=["GET"]),
            Route("/undo", pages.undo, methods=["POST"]),
            Route("/review", pages.review, methods=["GET"]),
            Route("/review/next", pages.review_next, methods=["GET"]),
            Route("/runs", pages.runs, methods=["GET"]),
            Route("/run/{run}", pages.run, methods=["GET"]),
            Route("/run/{run}/rows", pages.run_rows, methods=["GET"]),
            Route("/run/{run}/summary", pages.run_summary, methods=["GET"]),
            Route("/compare", pages.compare, methods=["GET"]),
            Route("/compare/sessions", pages.compare_sessions, methods=["GET"]),
            Route("/judge", pages.judge, methods=["GET"]),
            Route("/trends", pages.trends, methods=["GET"]),
            Route("/tools", pages.tools, methods=["GET"]),
            Mount("/static", _Assets(directory=FOLDER / "static")),
        ],
        middleware=[Middleware(_Protected, hosts=site.hosts)],
        exception_handlers={
            HTTPException: pages.http_error,
            InputError: pages.bad_request,
            UpgradingError: pages.upgrading,
            StoreLockedError: pages.unavailable,
            StoreError: pages.unavailable,
            Exception: pages.broken,
        },
    )


class _Assets(StaticFiles):
    """The files that pages need: a browser keeps one by the address that pages have of it."""

    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Return a file."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        if scope["query_string"]:  # the digest of its content
            response.headers["cache-control"] = "max-age=31536000, immutable"
        return response


class _Next(NamedTuple):
    """Where a queue leads: an address, and what the page there is made of where that is a session's."""

    address: str
    values: Mapping[str, Any] = {}


class _Pages:
    """The pages, each made of the database as it is at the time."""

    def __init__(self, database: Viewed, site: Site) -> None:
        self._database = database
        self._site = site
        self._links = ServerLinks()
        # By reviewer the page to which a queue leads, and the mark of the database of which it was made.
        self._ready: dict[str, tuple[str, Mapping[str, Any]]] = {}

    @property
    def _reviewer(self) -> Reviewer | None:
        return self._site.reviewer()

    def overview(self, request: Request) -> Response:
        with self._database.reading() as store:
            values = overview_page(store, request.query_params, self._database.only)
        return self._page(request, "overview.html", {**values, "problems": self._site.problems()})

    def live(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse({"mark": self._database.mark, "notice": self._database.notice})

    def causes(self, request: Request) -> Response:
        with self._database.reading() as store:
            values = causes_part(store, request.query_params, self._database.only)
        return HTMLResponse(render("part_causes.html", values, self._links))

    def sessions(self, request: Request) -> Response:
        texts = dict(request.query_params)
        if "column" in texts:  # as the form has it
            texts["columns"] = ",".join(request.query_params.getlist("column"))
        try:
            with self._database.reading() as store:
                values = sessions_page(store, texts, self._database.only)
        except InputError as error:  # the line stays, so that it can be corrected
            return self._page(request, "sessions.html", empty_page(texts.get("q", ""), str(error)), 400)
        return self._page(request, "sessions.html", values)

    def count(self, request: Request) -> Response:
        with self._database.reading() as store:
            number = count_page(store, request.query_params, self._database.only)
        return PlainTextResponse(f"{number:,} session{'' if number == 1 else 's'}")

    def suggestions(self, request: Request) -> Response:
        name = request.path_params["filter"]
        if name not in SUGGESTIONS:
            raise HTTPException(404, "no such filter")
        with self._database.reading() as store:
            values = suggestions(store, name)
        return HTMLResponse(render("suggestions.html", {"values": values}, self._links))

    def session(self, request: Request) -> Response:
        named = request.query_params.get("run")
        values = {} if named else self._take_ready(request.path_params["session"])
        if not values:
            with self._database.reading() as store:
                run = find_run_id(store, named) if named else None
                values = self._session_values(store, _session_id(store, request), run)
        asked = {name: text for name in _QUEUE if (text := request.query_params.get(name, ""))}
        queue = asked if "queue" in asked else {}
        links = ServerLinks(given_scope(request.query_params))
        back = links.session(values["session_id"], run_id=values["requested_run"])
        here = links.session(values["session_id"], run_id=values["requested_run"], **queue)
        return self._page(request, "session.html", {**values, "queue": queue, "back": back, "here": here})

    def _session_values(self, store: Store, session_id: str, run_id: str | None = None) -> dict[str, Any]:
        rubrics = names_of_scores(store) if self._reviewer else []
        return {**session_page(store, session_id, run_id), "rubrics": rubrics}

    def _next(self, store: Store, texts: Mapping[str, str]) -> _Next:
        """Return where a queue leads, with its page: to open the database again would take as long."""
        queue = {name: text for name in _QUEUE if (text := texts.get(name, ""))}
        session_id = next_to_review(store, self._writer().name, texts, self._database.only)
        if session_id is None:
            return _Next(self._links.review(**queue))
        address = f"{self._links.session(session_id)}{query_of(queue)}"
        # Without a mark it is not known whether something was written in between.
        return _Next(address, self._session_values(store, session_id) if self._database.mark else {})

    def _lead(self, to: _Next) -> str:
        """Keep the page to which a queue leads, once the database is closed; return its address."""
        if to.values:
            self._ready[self._writer().name] = (self._database.mark, to.values)
        return to.address

    def _take_ready(self, part: str) -> Mapping[str, Any]:
        """Return what the page of a session is made of, if a queue has led there and nothing was written."""
        mark, values = self._ready.pop("" if self._reviewer is None else self._reviewer.name, ("", {}))
        is_it = values and url_part(values["session_id"]) == part and mark == self._database.mark
        return values if is_it else {}

    def part(self, request: Request) -> Response:
        name = request.path_params["part"]
        if name == "correct" and (self._reviewer is None or not self._reviewer.golden):
            raise HTTPException(404, "no golden file is open")
        with self._database.reading() as store:
            session_id = _session_id(store, request)
            part = (
                form_part(store, session_id)
                if name == "correct"
                else session_part(store, session_id, name, request.query_params)
            )
        if part is None:
            raise HTTPException(404, "no such part of a session")
        template, values = part
        back = self._links.session(session_id)
        values = {"reviewer": self._reviewer, "back": back, **values}
        return HTMLResponse(render(template, values, self._links))

    def image(self, request: Request) -> Response:
        span_id, number = (request.query_params.get(name, "") for name in ("id", "number"))
        found = None
        if number.isascii() and number.isdecimal() and len(number) < 4:
            with self._database.reading() as store:
                found = image_of(store, _session_id(store, request), span_id, int(number))
        if found is None:
            raise HTTPException(404, "no such image")
        return Response(found.content, media_type=found.kind)

    async def label(self, request: Request) -> Response:
        return await self._write(request, self._label)

    async def undo(self, request: Request) -> Response:
        return await self._write(request, lambda store, request, form: self._writer().undo(store))  # noqa: ARG005

    async def add_golden(self, request: Request) -> Response:
        return await self._write(request, self._add_golden)

    def _label(self, store: Store, request: Request, form: Mapping[str, str]) -> None:
        session_id = _session_id(store, request)
        back = urlsplit(form.get("back", ""))
        queue = [one for one in parse_qsl(back.query) if one[0] in _QUEUE]
        page = form["back"] if back.path == self._links.judge() else self._links.session(session_id)
        self._writer().write(store, session_id, form, f"{page}?{urlencode(queue)}" if queue else page)

    def _add_golden(self, store: Store, request: Request, form: Mapping[str, str]) -> None:
        session_id = _session_id(store, request)
        made = tried(store, stored_session(store, session_id), form)
        is_draft = "draft" in form
        if made.problem and not is_draft:
            raise InputError(f"it is not added: {made.problem}")
        self._writer().add_question(made.question, reviewed="reviewed" in form and not is_draft)

    async def prove_golden(self, request: Request) -> Response:
        form = await self._form(request)

        def proved() -> ProvedQuestion:
            with self._database.reading() as store:
                return tried(store, stored_session(store, _session_id(store, request)), form)

        made = await run_in_threadpool(proved)
        return HTMLResponse(render("part_proof.html", {"tried": made}, self._links))

    def _writer(self) -> Reviewer:
        if self._reviewer is None:
            raise HTTPException(403, "these pages change nothing for you (spangrade view --allow-labels)")
        return self._reviewer

    async def _write(
        self, request: Request, write: Callable[[Store, Request, Mapping[str, str]], str | None]
    ) -> Response:
        """Do what a form asks for, if it comes from a page of this server, and lead back to the page.

        That is the one which `write` returns, else the one that the form names, or to which its queue leads.
        """
        form = await self._form(request)

        def written() -> str:
            with self._database.writing() as store:
                with store.transaction():
                    page = write(store, request, form)
                to = _Next(page or form.get("back", ""))
                asked = urlsplit(to.address)
                if asked.path == self._links.review_next():
                    to = self._next(store, dict(parse_qsl(asked.query)))
            return self._lead(to)

        back = await run_in_threadpool(written)
        return RedirectResponse(back if is_own_page(back) else self._links.review(), 303)

    async def _form(self, request: Request) -> dict[str, str]:
        """Return the form that a page of this server sent; raise HTTPException for any other."""
        reviewer = self._writer()
        own = {f"{scheme}://{request.headers['host']}" for scheme in self._site.schemes}
        by_origin = "same-origin" if request.headers.get("origin", min(own)) in own else "cross-site"
        if request.headers.get("sec-fetch-site", by_origin) != "same-origin":  # older browsers: Origin alone
            raise HTTPException(403, "this request comes from another site")
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BYTES:
                raise HTTPException(413, f"expected at most {MAX_BYTES:,} bytes")
        try:
            text = body.decode("utf-8", "replace")
            form = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
        except ValueError:
            raise HTTPException(400, f"expected a form of at most {_MOST_FIELDS} fields") from None
        if not reviewer.accepts(form.get("token", "")):
            raise HTTPException(403, "this page is of an earlier start of the server: load it again")
        return form

    def golden(self, request: Request) -> Response:
        with self._database.reading() as store:
            session = stored_session(store, _session_id(store, request))
        made = golden(session, longest=2**63)
        if made.problem:
            raise HTTPException(409, f"it cannot be made into a golden question: {made.problem}")
        text = f'{{"golden_questions": [{made.text}]}}\n'
        name = f'attachment; filename="{url_part(session.session_id)[:80]}.golden.json"'
        return Response(text, 200, {"content-disposition": name}, "application/json")

    def session_file(self, request: Request) -> Response:
        kind = request.path_params["kind"]
        if kind not in ("html", "json"):
            raise HTTPException(404, "expected file.html or file.json")
        redacted = "redacted" in request.query_params
        with self._database.reading() as store:
            session_id = _session_id(store, request)
            named = request.query_params.get("run")
            run = find_run_id(store, named) if named else None
            text = session_file(store, session_id, kind, run_id=run, redacted=redacted)
        name = "session" if redacted else url_part(session_id)[:80]  # an id may name a person
        disposition = f'attachment; filename="{name}.{kind}"'
        media = {"html": "text/html", "json": "application/json"}[kind]
        return Response(text, 200, {"content-disposition": disposition}, media)

    def review(self, request: Request) -> Response:
        with self._database.reading() as store:
            values = review_page(store, self._writer().name, request.query_params, self._database.only)
        values["address"] = {**given_scope(request.query_params), **values["address"]}
        return self._page(request, "review.html", values)

    def review_next(self, request: Request) -> Response:
        with self._database.reading() as store:
            to = self._next(store, request.query_params)
        return RedirectResponse(self._lead(to), 303)

    def runs(self, request: Request) -> Response:
        page = request.query_params.get("page", "1")
        if not (page.isascii() and page.isdecimal() and len(page) < 10 and int(page)):
            raise InputError(f"page: {page[:80]!r} is not the number of a page")
        with self._database.reading() as store:
            values = runs_page(store, int(page), watched="watch" in request.query_params)
        return self._page(request, "runs.html", values)

    def run(self, request: Request) -> Response:
        with self._database.reading() as store:
            values = grid_page(store, _run(store, request), request.query_params)
        return self._page(request, "grid.html", values)

    def run_rows(self, request: Request) -> Response:
        with self._database.reading() as store:
            values = grid_part(store, _run(store, request), request.query_params)
        return HTMLResponse(render("grid_rows.html", values, ServerLinks(given_scope(request.query_params))))

    def run_summary(self, request: Request) -> Response:
        with self._database.reading() as store:
            values = run_page(store, _run(store, request))
        if values is None:
            raise HTTPException(404, "no such run")
        links = ServerLinks(given_scope(request.query_params))
        return HTMLResponse(render("run_body.html", values, links))

    def compare(self, request: Request) -> Response:
        with self._database.reading() as store:
            values = compare_page(store, request.query_params)
        return self._page(request, "compare.html", values)

    def compare_sessions(self, request: Request) -> Response:
        with self._database.reading() as store:
            values = compare_sessions_page(store, request.query_params)
        return self._page(request, "compare_sessions.html", values)

    def judge(self, request: Request) -> Response:
        with self._database.reading() as store:
            values = judge_page(store, request.query_params)
        return self._page(request, "judge.html", values)

    def trends(self, request: Request) -> Response:
        with self._database.reading() as store:
            values = trends_page(store, request.query_params, self._database.only)
        return self._page(request, "trends.html", values)

    def tools(self, request: Request) -> Response:
        with self._database.reading() as store:
            values = tools_page(store, request.query_params, self._database.only)
        return self._page(request, "tools.html", values)

    def http_error(self, request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):  # it is registered for no other
            raise error
        return self._error(request, error.status_code, error.detail, error.headers)

    def bad_request(self, request: Request, error: Exception) -> Response:
        return self._error(request, 400, str(error))

    def upgrading(self, request: Request, error: Exception) -> Response:
        return self._error(request, 503, str(error), {"Retry-After": "2", "Refresh": "2"})

    def unavailable(self, request: Request, error: Exception) -> Response:
        return self._error(request, 503, str(error), {"Retry-After": "1"})

    def broken(self, request: Request, error: Exception) -> Response:  # noqa: ARG002
        return self._error(request, 500, "This page cannot be made: the log of spangrade view has the error.")

    def _page(
        self,
        request: Request,
        template: str,
        values: Mapping[str, Any],
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        page = {
            **header_elsewhere(given_scope(request.query_params)),
            "database": self._database.name,
            "notice": self._database.notice,
            "reviewer": self._reviewer,
            "login": self._site.login(),
            "search": SEARCH,
            "line": line_of(given_scope(request.query_params)),
            **values,
        }
        return HTMLResponse(render(template, page, ServerLinks(page["scope"])), status, headers)

    def _error(
        self, request: Request, status: int, message: str, headers: Mapping[str, str] | None = None
    ) -> Response:
        return self._page(request, "error.html", {"status": status, "message": message}, status, headers)


def is_own_page(address: str) -> bool:
    """Return whether an address that a form gives leads to this server, and nowhere else."""
    return re.fullmatch(r"/(?!/)[^\\\s]*", address) is not None


def _text(part: str) -> str:
    """Return the text of a part of a path; "" where only its hash is in it, or nothing is."""
    try:
        return text_of(part) or ""
    except ValueError:
        return ""


def _run(store: Store, request: Request) -> str:
    """Return the id of the run that a path names by its name, its id or the beginning of it."""
    name = _text(request.path_params["run"])
    if not name:
        raise HTTPException(404, "no such run")
    try:
        return find_run_id(store, name)
    except InputError as error:
        raise HTTPException(404, str(error)) from None


def _session_id(store: Store, request: Request) -> str:
    """Return the id of the session that a path names."""
    part = request.path_params["session"]
    try:
        session_id = text_of(part)
    except ValueError:
        raise HTTPException(404, "no such session") from None
    condition = "session_id = $key" if session_id is not None else "sha256(session_id) = $key"
    key = hash_of(part) if session_id is None else session_id
    rows = store.query(
        f"SELECT session_id FROM derived.sessions WHERE {condition}",  # noqa: S608 (one of two)
        {"key": key},
    )
    if not rows:
        raise HTTPException(404, f"no session {key[:200]!r}: it may have been deleted")
    return str(rows[0][0])


class _Protected:
    """Adds the headers, and rejects requests to any other host than this machine and the allowed ones.

    A page of another site can let its name point to 127.0.0.1 (DNS rebinding); then `Host` is that name.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] = frozenset()) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                message["headers"] += [(name, value) for name, value in _HEADERS.items() if name not in own]
            await send(message)

        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        host = host_of(f"//{hosts[0]}") if len(hosts) == 1 else ""
        if is_loopback(host) or host in self._hosts:
            await self._app(scope, receive, send_protected)
        else:
            rejected = PlainTextResponse("the header Host does not name this machine\n", 403)
            await rejected(scope, receive, send_protected)
