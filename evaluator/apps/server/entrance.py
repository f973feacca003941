"""Who a request of the pages is from, and what it may do: keys, logins, and names that a proxy gives."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spangrade.evaluator.apps.server.pages.app import Site, is_own_page
from spangrade.evaluator.apps.server.pages.labelling import Reviewer
from spangrade.evaluator.apps.server.start import NO_PROXY, Proxy
from spangrade.evaluator.reports.html.links import ServerLinks, under
from spangrade.evaluator.reports.html.rendering import render
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.receiver.access import bearer
from spangrade.tracer.receiver.keys import Key, KeyFile, Role

COOKIE = "spangrade_login"
_LASTS_S = 12 * 3600
_TRIES, _TRIES_IN_S = 10, 60.0  # of wrong keys, from one address
_MAX_ADDRESSES = 10_000  # whose tries are remembered
_MAX_FORM = 10_000  # bytes
_OPEN = ("/healthz", "/readyz")


class Who(NamedTuple):
    """Who asks, by name, and the role; `by_login` if a browser sends it without being told to."""

    name: str
    role: Role
    by_login: bool = False


_who: ContextVar[Who | None] = ContextVar("spangrade_who", default=None)


class ServedSite(Site):
    """The pages of a server: those who may review write under their own name."""

    schemes = ("http", "https")

    def __init__(
        self,
        hosts: frozenset[str],
        golden: Path | None,
        problems: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        super().__init__()
        self.problems = problems
        self.hosts = hosts
        self._golden = golden
        self._reviewers: dict[str, Reviewer] = {}

    def reviewer(self) -> Reviewer | None:
        """Return who asks, if they may write labels."""
        who = _who.get()
        if who is None or not who.role.may("review"):
            return None
        return self._reviewers.setdefault(who.name, Reviewer(who.name, self._golden))

    def login(self) -> str:
        """Return the name of who is logged in by a cookie."""
        who = _who.get()
        return who.name if who is not None and who.by_login else ""


class Entrance:
    """The application of a server: health and metrics, logins, and the pages for those who may see them."""

    def __init__(
        self,
        pages: ASGIApp,
        keys: KeyFile,
        *,
        health: Callable[[], Mapping[str, object]],
        readiness: Callable[[], Mapping[str, object]],
        metrics: Callable[[], bytes],
        observe: Callable[[float, int], None],
        base: str = "",
        proxy: Proxy = NO_PROXY,
        secure: bool = False,
        is_open: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._pages = pages
        self._keys = keys
        self._states = {"/healthz": (health, "ok"), "/readyz": (readiness, "ready")}
        self._metrics = metrics
        self._observe = observe
        self._base = base
        self._proxy = proxy
        self._secure = secure
        self._is_open = is_open
        self._clock = clock
        self._wrong: dict[str, deque[float]] = {}  # times, by address
        self._links = ServerLinks()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the pages do so."""
        if scope["type"] != "http":
            return
        start_s = time.perf_counter()
        path = str(scope["path"])
        inner = path.removeprefix(self._base) if path.startswith(f"{self._base}/") else None
        scope = {**scope, "root_path": self._base}
        with under(self._base):
            response = await self._answer(Request(scope, receive), path if inner is None else inner, inner)
            if response is not None:
                await response(scope, receive, send)
                return
            status = 500

            async def noted(message: Message) -> None:
                nonlocal status
                status = message.get("status", status)
                await send(message)

            await self._pages(scope, receive, noted)
        self._observe(time.perf_counter() - start_s, status)

    async def _answer(self, request: Request, path: str, inner: str | None) -> Response | None:
        """Return the answer to a request; None if it is for the pages."""
        if path in _OPEN:
            state_of, good = self._states[path]
            state = state_of()
            return JSONResponse(state, 200 if state["status"] == good else 503)
        if inner is None and path != "/metrics":
            return RedirectResponse(f"{self._base}/") if path == self._base else _refused(404, "no such page")
        try:
            who = self._who(request)
        except InputError as error:
            return _refused(503, str(error))
        _who.set(who)
        if path == "/metrics":
            if who is None or not who.role.may("read"):
                return _refused(401, "no key, or one that may not read: expected Authorization: Bearer KEY")
            return Response(self._metrics(), media_type="text/plain; version=0.0.4")
        if path == "/login":
            return await self._login(request)
        if path == "/logout" and request.method == "POST":
            gone = RedirectResponse(self._links.login(), 303)
            gone.delete_cookie(COOKIE, path=f"{self._base}/")
            return gone
        if path.startswith("/static/"):
            return None
        return self._refusal(request, who)

    def _refusal(self, request: Request, who: Who | None) -> Response | None:
        """Return why a request may not have a page, or leads to the login; None if it may."""
        if who is None:
            if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
                query = f"?{request.url.query}" if request.url.query else ""
                back = quote(f"{request.url.path}{query}", safe="")
                return RedirectResponse(f"{self._links.login()}?back={back}", 303)
            refused = _refused(401, "no key: expected Authorization: Bearer KEY, or a login")
            refused.headers["WWW-Authenticate"] = "Bearer"
            return refused
        needed = "read" if request.method in ("GET", "HEAD") else "review"
        return None if who.role.may(needed) else _refused(403, f"{who.name} may not {needed}")

    def _who(self, request: Request) -> Who | None:
        """Return who asks: by a key, a proxy, or a login; anyone may read as long as nobody needs a key."""
        address = request.client.host if request.client else ""
        if given := bearer(request.headers.get("authorization")):
            found = self._keys.find(given)
            return None if found is None else Who(found.name, found.role)
        if self._proxy.header is not None and self._proxy.trusts(address):
            named = request.headers.getlist(self._proxy.header)
            if len(named) == 1 and named[0].strip() and named[0].isprintable():
                return Who(named[0].strip(), self._proxy.role)
            return None
        if (found := self._of_cookie(request.cookies.get(COOKIE, ""))) is not None:
            return Who(found.name, found.role, by_login=True)
        return Who("anyone", Role.READ) if self._is_open() else None

    def _cookie(self, key: Key) -> str:
        content = json.dumps([key.sha256, int(self._clock()) + _LASTS_S])
        text = base64.urlsafe_b64encode(content.encode()).decode()
        return f"{text}.{self._keys.signed(text)}"

    def _of_cookie(self, cookie: str) -> Key | None:
        """Return the key with which the owner of a cookie logged in, if it is still one."""
        text, _, signature = cookie.partition(".")
        if not text or not hmac.compare_digest(signature.encode(), self._keys.signed(text).encode()):
            return None
        try:
            digest, ends_s = json.loads(base64.urlsafe_b64decode(text))
        except (ValueError, binascii.Error):
            return None
        return self._keys.of_hash(digest) if self._clock() < ends_s else None

    async def _login(self, request: Request) -> Response:
        """Show the form, or log in with the key that it gives."""
        back = request.query_params.get("back", "")
        if request.method == "GET":
            return self._form(back)
        if request.method != "POST":
            return _refused(405, "expected GET or POST")
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return _refused(403, "this request comes from another site")
        address = request.client.host if request.client else ""
        if self._proxy.trusts(address):
            named = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
            others = (one.strip() for one in reversed(named) if not self._proxy.trusts(one.strip()))
            address = next(filter(None, others), address)
        if self._has_tried(address):
            refused = _refused(429, "too many wrong keys: try again in a minute")
            refused.headers["Retry-After"] = str(int(_TRIES_IN_S))
            return refused
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_FORM:
                return _refused(413, f"expected at most {_MAX_FORM:,} bytes")
        form = dict(parse_qsl(body.decode("utf-8", "replace")))
        found = self._keys.find(form.get("key", "").strip())
        if found is None or not found.role.may("read"):
            self._wrong.setdefault(address, deque(maxlen=_TRIES)).append(self._clock())
            return self._form(
                form.get("back", ""), "this key may not see the pages, or there is none like it", 401
            )
        back = form.get("back", "")
        answer = RedirectResponse(back if is_own_page(back) else self._links.overview(), 303)
        answer.set_cookie(
            COOKIE,
            self._cookie(found),
            max_age=_LASTS_S,
            path=f"{self._base}/",
            secure=self._secure,
            httponly=True,
            samesite="lax",
        )
        return answer

    def _has_tried(self, address: str) -> bool:
        """Return whether an address gave too many wrong keys lately."""
        since_s = self._clock() - _TRIES_IN_S
        if len(self._wrong) > _MAX_ADDRESSES:
            self._wrong = {one: times for one, times in self._wrong.items() if times[-1] > since_s}
        times = self._wrong.get(address, ())
        return sum(one > since_s for one in times) >= _TRIES

    def _form(self, back: str, problem: str = "", status: int = 200) -> Response:
        page = {"back": back, "problem": problem, "database": "", "notice": "", "reviewer": None}
        headers = {"Cache-Control": "no-store", "Content-Security-Policy": _POLICY, "X-Frame-Options": "DENY"}
        return HTMLResponse(render("login.html", page, self._links), status, headers)


_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


def _refused(status: int, why: str) -> Response:
    return PlainTextResponse(f"{why}\n", status, {"Cache-Control": "no-store"})
