"""Who may do what with a server's pages, metrics and OTLP: every role at every address."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from made_once import copy_of_sample
from serving import Answer, Served, serving_app
from starlette.routing import Mount, Route

from spangrade import InputError
from spangrade import open as open_database
from spangrade.evaluator.apps.server.entrance import COOKIE, Entrance, ServedSite
from spangrade.evaluator.apps.server.pages.app import create_app
from spangrade.evaluator.apps.server.pages.database import ViewedDatabase
from spangrade.evaluator.apps.server.start import Proxy
from spangrade.tracer.receiver.keys import KeyFile, Role

ONE = "conversation-1"
FORM = "application/x-www-form-urlencoded"
ROLES = (*Role, None)


@contextmanager
def gated(folder: Path, statuses: list[int] | None = None, **options: Any) -> Iterator[Served]:
    """Serve the pages of the sample, as `spangrade serve` does, to those who have a key."""
    shown = ViewedDatabase(folder / "s.duckdb")
    shown.prepare()
    site = ServedSite(frozenset({"spans.example.com"}), folder / "golden.json")
    entrance = Entrance(
        create_app(shown, site=site),
        KeyFile(folder / "keys.json"),
        health=lambda: {"status": "ok"},
        readiness=lambda: {"status": "ready"},
        metrics=lambda: b"spangrade_up 1\n",
        observe=lambda seconds, status: statuses.append(status) if statuses is not None else None,
        **options,
    )
    try:
        with serving_app(entrance, lifespan="off") as served:
            yield served
    finally:
        shown.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy_of_sample(tmp_path / "s.duckdb")
    return tmp_path


@pytest.fixture
def keys(folder: Path) -> dict[Role | None, str]:
    """The keys of four people, one of each role."""
    file = KeyFile(folder / "keys.json")
    return {None: "", **{role: file.create(f"who-may-{role}", role) for role in Role}}


def asked(served: Served, path: str, key: str = "", **more: Any) -> Answer:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return served.get(path, **headers, **more)


def addresses() -> Iterator[tuple[str, str]]:
    """Yield the method and the path of every page, as the application has them."""
    app = create_app(ViewedDatabase(Path("none")), site=ServedSite(frozenset(), None))
    for route in app.routes:
        if isinstance(route, Route):
            for method in sorted((route.methods or set()) - {"HEAD"}):
                yield method, route.path
        else:
            assert isinstance(route, Mount)
            assert route.path == "/static"


NAMES = {"{session}": ONE, "{run}": "none", "{part}": "tree", "{filter}": "agent"}


def filled(path: str) -> str:
    for name, value in NAMES.items():
        path = path.replace(name, value)
    return path


def test_every_page_and_every_role(folder: Path, keys: dict[Role | None, str]) -> None:
    reads, writes = {Role.READ, Role.REVIEW, Role.ADMIN}, {Role.REVIEW, Role.ADMIN}
    found, expected = {}, {}
    with gated(folder) as served:
        for method, path in addresses():
            for role in ROLES:
                body = {"body": "", "Content_Type": FORM} if method == "POST" else {}
                status = asked(served, filled(path), keys[role], method=method, **body).status
                let_in = role in (reads if method == "GET" else writes)
                if path.startswith("/review"):  # a person's own queue
                    let_in = role in writes
                found[method, path, role] = status not in (401, 403) or (
                    method == "POST" and status == 403 and role in writes  # without a form's token
                )
                expected[method, path, role] = let_in
                assert role is not None or status == 401
        open_to_all = {
            path: {role: asked(served, path, keys[role]).status for role in ROLES}
            for path in ("/healthz", "/readyz", "/login", "/static/style.css")
        }
        metrics = {role: asked(served, "/metrics", keys[role]).status for role in ROLES}
    assert found == expected
    assert len({path for _, path, _ in found}) > 15
    assert open_to_all == dict.fromkeys(open_to_all, dict.fromkeys(ROLES, 200))
    assert metrics == {
        Role.SEND: 401,
        Role.READ: 200,
        Role.REVIEW: 200,
        Role.ADMIN: 200,
        None: 401,
    }


def login(served: Served, key: str, back: str = "", base: str = "", **headers: str) -> Answer:
    form = urlencode({"key": key, "back": back})
    return served.get(f"{base}/login", method="POST", body=form, Content_Type=FORM, **headers)


def cookie_of(answer: Answer) -> str:
    found = SimpleCookie(answer.headers["set-cookie"])[COOKIE]
    assert (found["httponly"], found["samesite"]) == (True, "lax")
    return f'{COOKIE}="{found.value}"'


def test_a_browser_logs_in_by_key_and_labels_under_that_name(
    folder: Path, keys: dict[Role | None, str]
) -> None:
    with gated(folder) as served:
        turned_away = served.get("/runs?page=1", Accept="text/html")
        assert (turned_away.status, turned_away.headers["location"]) == (
            303,
            "/login?back=%2Fruns%3Fpage%3D1",
        )
        answer = login(served, keys[Role.REVIEW], f"/session/{ONE}")
        assert (answer.status, answer.headers["location"]) == (303, f"/session/{ONE}")
        cookie = cookie_of(answer)
        page = served.get(f"/session/{ONE}", Cookie=cookie).text
        assert "Log out who-may-review" in page
        token = page.partition('name="token" value="')[2].partition('"')[0]
        form = {"back": "/", "verdict": "fail", "by": "someone else"}

        def label(**fields: str) -> Answer:
            body = urlencode({**form, **fields})
            path = f"/session/{ONE}/labels"
            return served.get(path, method="POST", body=body, Content_Type=FORM, Cookie=cookie)

        assert label().status == 403
        assert label(token=token).status == 303
        away = served.get("/logout", method="POST", body="", Content_Type=FORM, Cookie=cookie)
        assert (away.status, "Max-Age=0" in away.headers["set-cookie"]) == (303, True)
    given = [one.author for one in open_database(folder / "s.duckdb").external_scores() if one.author]
    assert given == ["who-may-review"]


def test_nobody_is_led_elsewhere_by_a_login(folder: Path, keys: dict[Role | None, str]) -> None:
    with gated(folder) as served:
        for back in ("https://evil.example", "//evil.example", "/\\evil.example", ""):
            assert login(served, keys[Role.READ], back).headers["location"] == "/overview"
        assert login(served, keys[Role.READ], Sec_Fetch_Site="cross-site").status == 403


@pytest.mark.parametrize(
    "change",
    [
        lambda cookie: cookie.replace('="', '="x'),
        lambda cookie: cookie[:-3] + ('0"' if cookie[-3] != "0" else '1"'),
        lambda cookie: f'{COOKIE}=""',
        lambda cookie: f'{COOKIE}="e30=.00"',
    ],
)
def test_a_cookie_that_was_changed_is_none(
    folder: Path, keys: dict[Role | None, str], change: Callable[[str], str]
) -> None:
    with gated(folder) as served:
        cookie = cookie_of(login(served, keys[Role.READ]))
        assert served.get("/runs", Cookie=cookie).status == 200
        assert served.get("/runs", Cookie=change(cookie)).status == 401


def test_a_login_ends_with_its_key_at_once_and_after_half_a_day(
    folder: Path, keys: dict[Role | None, str]
) -> None:
    now = [1_800_000_000.0]
    with gated(folder, clock=lambda: now[0]) as served:
        cookie = cookie_of(login(served, keys[Role.READ]))
        now[0] += 12 * 3600 - 1
        assert served.get("/runs", Cookie=cookie).status == 200
        now[0] += 1
        assert served.get("/runs", Cookie=cookie).status == 401
        cookie = cookie_of(login(served, keys[Role.READ]))
        KeyFile(folder / "keys.json").revoke("who-may-read")
        assert served.get("/runs", Cookie=cookie).status == 401
        assert asked(served, "/runs", keys[Role.READ]).status == 401
        assert asked(served, "/runs", keys[Role.ADMIN]).status == 200


def test_wrong_keys_are_limited_by_address(folder: Path, keys: dict[Role | None, str]) -> None:
    now = [1_800_000_000.0]
    with gated(folder, clock=lambda: now[0]) as served:
        assert [login(served, f"sg_{number}").status for number in range(11)] == [401] * 10 + [429]
        assert login(served, keys[Role.READ]).status == 429
        now[0] += 61
        assert login(served, keys[Role.READ]).status == 303
        assert login(served, keys[Role.SEND]).status == 401


def test_wrong_keys_are_counted_by_the_last_address_that_is_not_a_proxys(
    folder: Path, keys: dict[Role | None, str]
) -> None:
    """A client sends a header of its own; a proxy adds an address to it, or a header beside it."""

    def wrong(served: Served, *forwarded: str) -> int:
        connection = HTTPConnection(served.url.removeprefix("http://"))
        connection.putrequest("POST", "/login")
        for one in forwarded:
            connection.putheader("X-Forwarded-For", one)
        connection.putheader("Content-Length", "7")
        connection.endheaders(b"key=sg_")
        return connection.getresponse().status

    proxy = Proxy.of(["127.0.0.1", "10.0.0.0/8"], None, Role.READ)
    for sent in (
        ["1.2.3.{}", "8.8.8.8"],
        ["1.2.3.{}, 8.8.8.8"],
        ["1.2.3.{}", "8.8.8.8, 10.0.0.7", "10.0.0.8"],
    ):
        with gated(folder, proxy=proxy) as served:
            statuses = [wrong(served, *(one.format(number) for one in sent)) for number in range(11)]
        assert statuses == [401] * 10 + [429], sent


def test_a_proxy_that_is_trusted_says_who_is_logged_in(folder: Path, keys: dict[Role | None, str]) -> None:
    proxy = Proxy.of(["127.0.0.1"], "X-User", Role.REVIEW)
    with gated(folder, proxy=proxy) as served:
        assert served.get("/review", X_User="ann").status == 200
        assert served.get("/review").status == 401
        assert asked(served, "/runs", keys[Role.READ]).status == 200
    elsewhere = Proxy.of(["10.0.0.0/8"], "X-User", Role.REVIEW)
    with gated(folder, proxy=elsewhere) as served:
        assert served.get("/review", X_User="ann").status == 401
    with pytest.raises(InputError, match="login_header is what a proxy says"):
        Proxy.of([], "X-User", Role.READ)


def test_pages_are_under_the_base_path_alone(folder: Path, keys: dict[Role | None, str]) -> None:
    with gated(folder, base="/sg") as served:
        page = asked(served, "/sg/", keys[Role.READ])
        outside = [
            one
            for one in page.text.split('"')
            if one.startswith("/") and not one.startswith("/sg/") and len(one) > 1
        ]
        assert (page.status, outside) == (200, [])
        statuses = [
            asked(served, path, keys[Role.READ]).status for path in ("/", "/runs", "/sgx/", "/sg", "/sg/runs")
        ]
        assert statuses == [404, 404, 404, 307, 200]
        assert served.get("/sg/static/style.css").status == served.get("/sg/healthz").status == 200
        assert login(served, keys[Role.READ], base="/sg").headers["location"] == "/sg/overview"


def test_the_pages_answer_to_allowed_hosts_alone(folder: Path, keys: dict[Role | None, str]) -> None:
    with gated(folder) as served:
        found = {
            host: asked(served, "/runs", keys[Role.READ], Host=host).status
            for host in ("localhost", "spans.example.com", "spans.example.com:8443", "evil.example")
        }
    assert found == {
        "localhost": 200,
        "spans.example.com": 200,
        "spans.example.com:8443": 200,
        "evil.example": 403,
    }


def test_a_key_is_stored_as_its_hash_and_a_name_has_one(folder: Path) -> None:
    file = KeyFile(folder / "keys.json")
    key = file.create("ann", Role.READ)
    assert key not in (folder / "keys.json").read_text()
    assert (folder / "keys.json").stat().st_mode & 0o077 == 0
    with pytest.raises(InputError, match="ann has a key already"):
        file.create("ann", Role.ADMIN)
    with pytest.raises(InputError, match="bob has no key"):
        file.revoke("bob")
    found = file.find(key)
    assert found is not None
    assert (found.name, found.role, file.find(key[:-1])) == ("ann", Role.READ, None)


def test_a_file_of_keys_that_cannot_be_read_lets_nobody_in(
    folder: Path, keys: dict[Role | None, str]
) -> None:
    with gated(folder) as served:
        (folder / "keys.json").write_text(json.dumps({"keys": []}))
        assert asked(served, "/runs", keys[Role.ADMIN]).status == 503
        (folder / "keys.json").unlink()
        assert asked(served, "/runs", keys[Role.ADMIN]).status == 401
        assert served.get("/runs").status == 401
