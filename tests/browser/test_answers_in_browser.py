"""What the pages answer: since yesterday, which tool, whom to believe, and what is new."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the group `browser`")
from otlp_sessions import START_NS, Call, Said, write_sessions
from playwright.sync_api import Page, expect
from serving import serving

import spangrade
from spangrade.evaluator.view.database import ViewedDatabase
from spangrade.evaluator.view.labelling import Reviewer

WORKS = [Said("Where is it?", calls=[Call("look_up", {"id": 1})])]
FAILS = [Said("Where is it?", calls=[Call("look_up", {"id": 1}, error="no such order"), Call("refund")])]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    opened = spangrade.open(tmp_path / "s.duckdb")
    sessions = [(f"s{number:02}", FAILS if number < 8 else WORKS) for number in range(24)]
    opened.import_files(write_sessions(tmp_path / "s.jsonl", sessions))
    opened.grade(gates="tool_success_rate>=0.9")
    for number in range(24):
        opened.label(
            f"s{number:02}", "pass" if number in (3, 4) or number >= 8 else "fail", by="ann", note="seen"
        )
    return tmp_path / "s.duckdb"


def test_what_failed_since_yesterday_takes_no_click_and_the_list_one_key(page: Page, db: Path) -> None:
    with serving(db) as served:
        page.goto(served.url)
        expect(page.locator("h1")).to_contain_text("8 of 24 sessions failed since")
        expect(page.locator(".causes > li")).to_have_count(1)
        expect(page.locator(".causes > li").first.locator("a.row")).to_have_count(3)
        page.keyboard.press("l")
        expect(page.locator("tr[data-session]")).to_have_count(24)


def test_which_tool_fails_takes_one_click_and_a_second_leads_to_the_call(page: Page, db: Path) -> None:
    with serving(db) as served:
        page.goto(served.url)
        page.get_by_role("link", name="Tools", exact=True).click()
        row = page.locator("tr", has=page.get_by_role("rowheader", name="look_up"))
        row.get_by_role("link", name="8", exact=True).click()
        expect(page.locator("tr[data-session]")).to_have_count(8)
        expect(page.locator(".hit mark").first).to_have_text("look_up")
        page.locator("a.row").first.click()
        span = page.url.partition("#")[2]
        assert span.startswith("span-")
        expect(page.locator(f"#{span}")).to_be_in_viewport()


def test_whom_to_believe_takes_one_click_and_a_dispute_two_keys(page: Page, db: Path) -> None:
    with serving(db, Reviewer("ann")) as served:
        page.goto(served.url)
        page.get_by_role("link", name="Judge", exact=True).click()
        expect(page.locator("h1")).to_contain_text("22 of 24 sessions")
        expect(page.locator("a.row")).to_have_text(["s03", "s04"])
        page.keyboard.press("j")
        page.keyboard.press("c")
        expect(page.locator("a.row")).to_have_text(["s04"])
        page.keyboard.press("u")
        expect(page.locator("a.row")).to_have_text(["s03", "s04"])


def test_new_sessions_appear_without_reloading(page: Page, db: Path, tmp_path: Path) -> None:
    with serving(db) as served:
        page.goto(f"{served.url}/sessions?origin=any")
        expect(page.locator("tr[data-session]")).to_have_count(24)
        page.evaluate("window.stays = true")
        with page.expect_response(lambda answer: answer.url.endswith("/live")):
            pass  # what was there first is known
        new = write_sessions(tmp_path / "new.jsonl", [("new", WORKS)], start_ns=START_NS + 10**15)
        spangrade.open(db).import_files(new)
        expect(page.locator("tr[data-session=new]")).to_have_count(1)
        expect(page.locator("#notice")).to_have_text("")
        assert page.evaluate("window.stays") is True


def test_what_the_server_says_goes_with_its_cause_and_other_pages_say_what_is_new(
    page: Page, db: Path, problems: list[str]
) -> None:
    page.clock.install()
    database = ViewedDatabase(db)
    notice = page.locator("#notice")
    with serving(database) as served:
        page.goto(served.url)
        for said in ("New spans are being derived.", ""):
            database.notice = said
            page.clock.run_for(3000)
            expect(notice).to_have_text(said)
        database.notice = "New spans are being derived."
        page.goto(f"{served.url}/nothing")  # that shows nothing of the newest, and does not open the database
        expect(notice).to_have_text("New spans are being derived.")
        database.notice = ""
        page.clock.run_for(3000)
        expect(notice).to_have_text("New spans were derived: load the page again to see them.")
    problems[:] = [one for one in problems if "404 (Not Found)" not in one]


def test_what_a_page_says_of_what_was_done_goes_by_itself(page: Page, db: Path) -> None:
    page.clock.install()
    with serving(db) as served:
        page.goto(f"{served.url}/session/s20")
        page.keyboard.press("e")
        expect(page.locator("#status")).to_have_text("No errors")
        page.clock.run_for(5000)
        expect(page.locator("#status")).to_have_text("")
