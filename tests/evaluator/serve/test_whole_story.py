"""All that a server's pages answer to people of each role, and what they leave, in `tests/cases/served`.

`WRITE_CASES=1 pytest` of this file writes it, to be read in the diff.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from cases import FOLDER, compare
from every_command import graded
from made_once import copy_of, made_once
from serving import Answer, Served, serving_app

from spangrade import open as open_database
from spangrade.evaluator.apps.server.entrance import COOKIE, Entrance, ServedSite
from spangrade.evaluator.apps.server.pages.app import create_app
from spangrade.evaluator.apps.server.pages.database import ViewedDatabase
from spangrade.evaluator.apps.server.start import Proxy
from spangrade.tracer.receiver.keys import KeyFile, Role

ONE, TWO = "/session/conversation-1", "/session/conversation-2"
FORM = "application/x-www-form-urlencoded"
SHOWN = (
    *("location", "content-type", "content-disposition", "cache-control", "www-authenticate"),
    *("retry-after", "x-frame-options", "referrer-policy"),
)
ADMIN, REVIEW, READ, SEND = "ada", "rob", "ron", "sam"
Asked = tuple[str, str, str, dict[str, Any], dict[str, str]]  # who, method, path, form, headers
CHANGING = (
    (re.compile(r"\b20(?!26-0[1-4])\d\d-\d\d-\d\d[ T]\d\d:\d\d(:[\d.]+)?(\+00:00|Z)?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{32}\b|\b[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\b\d+ (s|min|h) ago"), "AGO"),
    (re.compile(r"/\S*/(?=[\w-]+\.(duckdb|json)\b)"), ""),
    (re.compile(r"(?<=\"mark\":)\"[\d.]+\""), "MARK"),
)


def get(who: str, path: str, **headers: str) -> Asked:
    return who, "GET", path, {}, headers


def post(who: str, path: str, headers: dict[str, str] | None = None, **form: Any) -> Asked:
    return who, "POST", path, {"token": "TOKEN", **form}, headers or {}


LABEL = f"{ONE}/labels"
QUESTION = f"{ONE}/golden-question"
SAME, OTHER = {"Origin": "http://HOST"}, {"Origin": "https://evil.example"}
HTML = {"Accept": "text/html"}
STORY: list[Asked] = [
    # Who gets in.
    *(get(who, path) for path in ("/runs", "/metrics") for who in (ADMIN, REVIEW, READ, SEND, "nobody", "")),
    get("", "/", **HTML),
    get("", "/run/first?against=second&changed=yes", **HTML),
    ("", "HEAD", "/runs", {}, HTML),
    get("", "/login"),
    get("", "/login?back=%2Fruns"),
    ("", "PUT", "/login", {}, {}),
    ("", "POST", "/login", {"key": "KEY rob", "back": "/runs"}, {}),
    ("", "POST", "/login", {"key": " KEY ron "}, {}),
    ("", "POST", "/login", {"key": "KEY sam", "back": "/runs"}, {}),
    ("", "POST", "/login", {"key": "wrong", "back": "/runs"}, {}),
    ("", "POST", "/login", {"key": "KEY rob", "back": "//evil.example"}, {}),
    ("", "POST", "/login", {"key": "KEY rob"}, {"Sec-Fetch-Site": "cross-site"}),
    ("", "POST", "/login", {"key": "x" * 9_996}, {}),
    ("", "POST", "/login", {"key": "x" * 9_997}, {}),
    ("cookie rob", "GET", "/runs", {}, {}),
    ("cookie sam", "GET", "/runs", {}, {}),
    ("cookie rob", "POST", "/logout", {}, {}),
    get(READ, "/logout"),
    get("", "/static/style.css"),
    get("", "/healthz"),
    get("", "/readyz"),
    # Which hosts.
    get(READ, "/count", Host="spans.example.com"),
    get(READ, "/count", Host="spans.example.com:8000"),
    get(READ, "/count", Host="evil.example"),
    # What is not there.
    get(READ, "/none"),
    get(READ, "/session/none"),
    get(READ, f"{ONE}/none"),
    get(READ, f"{ONE}/file.txt"),
    get(READ, "/run/none"),
    get(READ, "/run/none/summary"),
    get(READ, "/run/first/rows?skip=x"),
    get(READ, "/compare?a=first&b=none"),
    get(READ, "/compare/sessions?first=conversation-1&second=none"),
    get(READ, "/suggestions/none"),
    get(READ, "/suggestions/agent"),
    get(READ, "/runs?page=0"),
    get(READ, "/runs?page=2"),
    get(READ, "/runs?page=x"),
    get(READ, "/sessions?q=cost%3Ex"),
    get(READ, "/count?q=verdict%3Apassed"),
    get(READ, "/count?q=turns%3E1"),
    get(READ, "/count?agent=none"),
    get(READ, f"{ONE}/image?id=1&number=0"),
    get(READ, f"{ONE}/correct"),
    get(READ, f"{ONE}?run=none"),
    get(READ, f"{ONE}/golden-question"),
    get(READ, "/judge?metric=none"),
    get(READ, "/live"),
    get(READ, "/review"),
    get(READ, "/review/next"),
    # Who may write, and from where.
    post(READ, LABEL, verdict="pass"),
    post("", LABEL, verdict="pass"),
    post(REVIEW, LABEL, OTHER, verdict="pass"),
    post(REVIEW, LABEL, {**SAME, "Sec-Fetch-Site": "same-site"}, verdict="pass"),
    post(REVIEW, LABEL, token="wrong", verdict="pass"),
    post(REVIEW, LABEL, **{f"f{number}": "x" for number in range(199)}),
    post(REVIEW, LABEL, note="x" * 1_000_000),
    post(REVIEW, "/session/none/labels", verdict="pass"),
    # What may be written.
    post(REVIEW, LABEL, SAME, verdict="pass", note=" fine "),
    post(REVIEW, LABEL, verdict="fail", back="/runs"),
    post(REVIEW, LABEL, value="4.5", name="stars", turn="1"),
    post(REVIEW, LABEL, value="kind", name="tone", back="//evil.example"),
    post(REVIEW, LABEL, value="1", name="stars", turn="9"),
    post(REVIEW, LABEL, value="1", name="stars", turn="x"),
    post(REVIEW, LABEL, value=" "),
    post(REVIEW, LABEL, verdict="maybe"),
    post(REVIEW, LABEL, verdict="remove", name="none"),
    post(REVIEW, LABEL, comment=" look here "),
    post(REVIEW, LABEL, comment=""),
    post(REVIEW, LABEL, comment=""),
    post(REVIEW, LABEL, verdict="pass", name="token_usage", back="/judge?metric=token_usage"),
    post(ADMIN, LABEL, verdict="pass", back="/review/next?queue=failed"),
    post(ADMIN, "/session/conversation-2/labels", verdict="fail", back="/review/next?queue=unlabelled"),
    get(ADMIN, "/review/next?queue=unlabelled"),
    get(ADMIN, "/review/next?queue=sampled&seed=3"),
    get(ADMIN, "/review?queue=none"),
    get(ADMIN, f"{TWO}?queue=unlabelled"),
    post(REVIEW, "/undo"),
    post(REVIEW, "/undo"),
    post(ADMIN, "/undo", back="/runs"),
    # Golden questions.
    post(REVIEW, f"{QUESTION}/proof", id="new"),
    post(REVIEW, QUESTION, id="new", draft="yes"),
    post(REVIEW, QUESTION, id="new", reviewed="yes"),
    post(REVIEW, QUESTION, id=""),
    post(READ, QUESTION, id="new"),
    post(REVIEW, "/undo"),
    get(REVIEW, f"{ONE}/correct"),
    get(REVIEW, f"{ONE}/file.json?redacted"),
    get(REVIEW, f"{ONE}/file.html?run=first"),
]
BEHIND: list[Asked] = [
    get("", "/spans", **HTML),
    get("", "/spans/", **HTML),
    get("", "/spans/runs", X_User="eve"),
    get("", "/spans/runs", X_User=" "),
    get("", "/spans/runs"),
    get("", "/runs", X_User="eve"),
    get("", "/metrics", X_User="eve"),
    get("", "/spans/login"),
    get("", "/healthz"),
    ("", "POST", "/spans/login", {"key": "KEY rob", "back": "/spans/runs"}, {}),
    *[
        ("", "POST", "/spans/login", {"key": "wrong"}, {"X-Forwarded-For": f"{first}, 127.0.0.1"})
        for first in ("198.51.100.1",) * 11
    ],
    ("", "POST", "/spans/login", {"key": "wrong"}, {"X-Forwarded-For": "198.51.100.1, 198.51.100.2"}),
    ("", "POST", "/spans/login", {"key": "KEY rob"}, {"X-Forwarded-For": "198.51.100.1"}),
    get(READ, "/spans/count"),
    post("", "/spans/session/conversation-1/labels", {"X-User": "eve"}, verdict="pass"),
    get("", "/spans/overview?since=2026-01-01", X_User="eve"),
]


class Person:
    """Who asks: by key or, once logged in, by cookie."""

    def __init__(self, served: Served, keys: dict[str, str], base: str) -> None:
        self._served, self._keys, self._base = served, keys, base
        self._cookies: dict[str, str] = {}
        self._tokens: dict[str, str] = {}

    def _headers(self, who: str) -> dict[str, str]:
        if who.startswith("cookie "):
            return {"Cookie": self._cookies.get(who.removeprefix("cookie "), f'{COOKIE}="none"')}
        return {"Authorization": f"Bearer {self._keys.get(who, who)}"} if who else {}

    def _token(self, headers: dict[str, str]) -> str:
        who = str(headers)
        if who not in self._tokens:
            page = self._served.get(f"{self._base}{ONE}", **headers).text
            self._tokens[who] = page.partition('name="token" value="')[2].partition('"')[0]
        return self._tokens[who]

    def ask(self, asked: Asked) -> Answer:
        who, method, path, form, headers = asked
        sent = {**self._headers(who), **{key.replace("_", "-"): one for key, one in headers.items()}}
        sent = {key: one.replace("HOST", f"127.0.0.1:{self._served.port}") for key, one in sent.items()}
        body = None
        if method == "POST":
            known = {key: one for key, one in sent.items() if key not in ("Origin", "Sec-Fetch-Site", "Host")}
            filled = {
                key: self._token(known) if one == "TOKEN" else self._with_key(one)
                for key, one in form.items()
            }
            body, sent["Content-Type"] = urlencode(filled), FORM
        answer = self._served.get(path, method=method, body=body, **sent)
        if COOKIE in answer.headers.get("set-cookie", "") and answer.status == 303:
            name = str(form.get("key", "")).strip().removeprefix("KEY ")
            self._cookies[name] = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def _with_key(self, text: str) -> str:
        return re.sub(r"KEY (\w+)", lambda found: self._keys[found[1]], text)


def shown(answer: Answer) -> list[Any]:
    """Return the status, the headers that matter, and the text: of a page, what is new of it."""
    headers = {name: answer.headers[name] for name in SHOWN if name in answer.headers}
    if cookie := answer.headers.get("set-cookie"):
        headers["set-cookie"] = re.sub(r'(?<==)"?[\w.=-]{40,}"?', "SIGNED", cookie, count=1)
        headers["set-cookie"] = re.sub(r"expires=[^;]+", "expires=TIME", headers["set-cookie"])
    text = answer.text
    if "<main" in text:
        text = text.partition("<main")[2].partition(">")[2]
    elif "css" in headers.get("content-type", ""):
        text = ""
    is_page = "html" in headers.get("content-type", "")
    if is_page:
        text = " ".join(re.sub(r"<[^>]*>", " ", text).split())
    for changing, word in CHANGING:
        text = changing.sub(word, text)
    text = text[: 160 if is_page else 600]
    return [answer.status, headers, text]


@contextmanager
def gated(folder: Path, statuses: list[int], keys: KeyFile, **options: Any) -> Iterator[Served]:
    viewed = ViewedDatabase(folder / "s.duckdb")
    viewed.prepare()
    site = ServedSite(frozenset({"spans.example.com"}), folder / "golden.json", lambda: ["one problem"])
    entrance = Entrance(
        create_app(viewed, site=site),
        keys,
        health=lambda: {"status": "ok"},
        readiness=lambda: {"status": "not ready", "reason": "it starts"},
        metrics=lambda: b"spangrade_up 1\n",
        observe=lambda _, status: statuses.append(status),
        clock=lambda: 1_800_000_000.0,
        **options,
    )
    try:
        with serving_app(entrance, lifespan="off", proxy_headers=False) as served:
            yield served
    finally:
        viewed.stop()


OPTIONS: dict[str, tuple[list[Asked], dict[str, Any]]] = {
    "keys": (STORY, {}),
    "proxy": (
        BEHIND,
        {"base": "/spans", "secure": True, "proxy": Proxy.of(["127.0.0.0/8"], "x-user", Role.REVIEW)},
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_server_answers_each_role_and_stores_what_it_is_to(name: str, tmp_path: Path) -> None:
    story, options = OPTIONS[name]
    copy_of(made_once("graded", graded), tmp_path / "s.duckdb")
    file = KeyFile(tmp_path / "keys.json")
    roles = {ADMIN: Role.ADMIN, REVIEW: Role.REVIEW, READ: Role.READ, SEND: Role.SEND}
    keys = {who: file.create(who, role) for who, role in roles.items()}
    statuses: list[int] = []
    found: dict[str, Any] = {}
    with gated(tmp_path, statuses, file, **options) as served:
        person = Person(served, keys, options.get("base", ""))
        for number, asked in enumerate(story, 1):
            who, method, path, form, headers = asked
            words = {
                key: one if len(str(one)) < 40 else f"{len(str(one))} characters" for key, one in form.items()
            }
            words = words if len(words) < 20 else {"fields": str(len(words))}
            told = " ".join([f"{number}", who or "-", method, path, *(f"{k}={v}" for k, v in words.items())])
            found[f"{told} {json.dumps(headers) if headers else ''}".strip()] = shown(person.ask(asked))
    golden = tmp_path / "golden.json"
    given = open_database(tmp_path / "s.duckdb").external_scores()
    after = {
        "scores": sorted(str([one.session_id, one.source.value, one.author, one.name, one.turn, one.value,
                              one.label, one.note, list(one.evidence)]) for one in given),
        "golden": json.loads(golden.read_text()) if golden.exists() else None,
        "statuses": statuses,
    }  # fmt: skip
    compare(FOLDER / "served" / f"{name}.json", {"answers": found, "after": after})
