"""Reviewers in a real browser: two at once, and requests that come from another site."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the group `browser`")
from made_once import copy_of_sample
from playwright.sync_api import Browser, Page, expect
from serving import serving

import spangrade
from spangrade.evaluator.apps.server.pages.labelling import Reviewer


def label(page: Page, keys: str) -> None:
    """Press keys, each on the page of another session."""
    for key in keys:
        form = page.locator("form[data-labelling]")
        action = form.get_attribute("action")
        page.wait_for_load_state("domcontentloaded")  # from then on it listens to keys
        page.keyboard.press(key)
        expect(page.locator(f"form[data-labelling][action='{action}']")).to_have_count(0)


def labels(db: Path) -> dict[str, list[str | None]]:
    """Return the labels of each reviewer, in the order of the ids of the sessions."""
    given = sorted(spangrade.open(db).external_scores(), key=lambda one: one.session_id)
    found: dict[str, list[str | None]] = {}
    for one in given:
        found.setdefault(one.author or "", []).append(one.label)
    return found


def test_two_reviewers_label_at_once_and_each_undoes_her_own(
    page: Page, chromium: Browser, tmp_path: Path
) -> None:
    db = copy_of_sample(tmp_path / "s.duckdb")
    with serving(db, Reviewer("ann")) as of_ann, serving(db, Reviewer("bob")) as of_bob:
        other = chromium.new_page()
        for one, served in ((page, of_ann), (other, of_bob)):
            one.goto(f"{served.url}/review/next?queue=unlabelled")
        for key_of_ann, key_of_bob in ("pf", "fp", "pp"):
            label(page, key_of_ann)
            label(other, key_of_bob)
        assert labels(db) == {"ann": ["pass", "fail", "pass"], "bob": ["pass", "pass", "fail"]}
        page.keyboard.press("u")  # the session stays: ann labelled the one before it
        expect(page.locator("form:has([data-key=u])")).to_contain_text("label: fail")
        assert labels(db) == {"ann": ["fail", "pass"], "bob": ["pass", "pass", "fail"]}
        other.goto(f"{of_bob.url}/review?queue=unlabelled")
        expect(other.get_by_label("Progress").locator("+ *")).to_have_text("3 of 4")
        other.close()


@contextmanager
def other_site(content: str) -> Iterator[str]:
    """Serve a page on a host of another name: for a browser that is another site."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, *values: object) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_another_site_writes_nothing_reads_nothing_and_frames_nothing(
    page: Page, problems: list[str], tmp_path: Path
) -> None:
    db = copy_of_sample(tmp_path / "s.duckdb")
    reviewer = Reviewer("ann")
    with serving(db, reviewer) as served:
        address = f"{served.url}/session/conversation-1"
        # Even with the token, which a page of another site cannot read.
        form = (
            f"<form method=post action='{address}/labels'><input name=token value='{reviewer.token}'>"
            "<input name=verdict value=pass><button>Win a prize</button></form>"
            f"<iframe src='{address}'></iframe>"
        )
        with other_site(form) as site:
            page.goto(site)
            page.wait_for_load_state("networkidle")
            assert [one.url for one in page.frames[1:]] == ["chrome-error://chromewebdata/"]
            read = page.evaluate("address => fetch(address).then(() => 'read', () => 'refused')", address)
            page.evaluate(
                "async ([address, body]) => {"
                " await fetch(address, {method: 'POST', mode: 'no-cors', body}).catch(() => null); }",
                [f"{address}/labels", f"token={reviewer.token}&verdict=pass"],
            )
            page.get_by_role("button", name="Win a prize").click()
            expect(page.locator("main")).to_contain_text("this request comes from another site")
    assert read == "refused"
    assert labels(db) == {}
    problems.clear()  # the browser reports what it refused
