"""What the pages answer: since yesterday, which tool, whom to believe, and what is new."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the group `browser`")
from otlp_sessions import START_NS, Call, Said, write_sessions
from playwright.sync_api import Page, expect
from serving import serving

import spangrade
from spangrade.evaluator.apps.server.pages.database import ViewedDatabase
from spangrade.evaluator.apps.server.pages.labelling import Reviewer

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


def test_what_failed_since_yesterday_takes_no_click_and_the_list_one(page: Page, db: Path) -> None:
    with serving(db) as served:
        page.goto(served.url)
        expect(page.locator("h1")).to_contain_text("8 of 24 sessions failed since")
        expect(page.locator(".causes > li")).to_have_count(1)
        expect(page.locator(".causes > li").first.locator("a.row")).to_have_count(3)
        page.get_by_role("link", name="List them").click()
        expect(page.locator("tr[data-session]")).to_have_count(24)


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
def test_whom_to_believe_takes_one_click_and_a_dispute_a_second(page: Page, db: Path) -> None:
    with serving(db, Reviewer("ann")) as served:
        page.goto(served.url)
        page.get_by_role("link", name="Judge", exact=True).click()
        expect(page.locator("h1")).to_contain_text("22 of 24 sessions")
        expect(page.locator("a.row")).to_have_text(["s03", "s04"])
        page.get_by_role("button", name="Label it fail").first.click()
        expect(page.locator("a.row")).to_have_text(["s04"])
        page.get_by_role("button", name="Undo").click()
        expect(page.locator("a.row")).to_have_text(["s03", "s04"])


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
def test_what_the_server_says_goes_with_its_cause_and_other_pages_say_what_is_new(
    page: Page, db: Path, problems: list[str]
) -> None:
    page.clock.install()
    database = ViewedDatabase(db)
    notice = page.locator("#notice")
    with serving(database) as served:
        page.goto(served.url)
        page.wait_for_load_state("networkidle")  # a page that is made drops a notice without a cause
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


@pytest.mark.exhaustive
def test_what_a_page_says_of_what_was_done_goes_by_itself(page: Page, db: Path) -> None:
    page.clock.install()
    with serving(db) as served:
        page.goto(f"{served.url}/session/s20")
        page.keyboard.press("e")
        expect(page.locator("#status")).to_have_text("No errors")
        page.clock.run_for(5000)
        expect(page.locator("#status")).to_have_text("")


@pytest.mark.exhaustive
def test_a_finding_is_sent_in_two_clicks_as_a_file_or_as_the_address_of_a_step(
    page: Page, db: Path, tmp_path: Path
) -> None:
    with serving(db) as served:
        page.goto(f"{served.url}/sessions?q=verdict:failed")
        page.locator("a.row").first.click()
        session = page.locator("[data-session]").first.get_attribute("data-session")
        page.keyboard.press("e")
        step = page.url
        with page.expect_download() as sent:
            page.get_by_text("Without personal data and secrets").get_by_role("link", name="HTML").click()
        sent.value.save_as(tmp_path / "sent.html")
        page.goto("about:blank")
        page.goto(step)
        expect(page.locator("li.item.failed.chosen")).to_be_in_viewport()
    page.goto((tmp_path / "sent.html").as_uri())  # the server does not run any more
    expect(page.locator("h1")).to_contain_text(f"Where is it? {session}")
    page.keyboard.press("e")
    expect(page.locator(".chosen")).to_contain_text("no such order")


def test_twenty_labels_take_one_click_and_twenty_one_keys(page: Page, db: Path) -> None:
    with serving(db, Reviewer("bob")) as served:
        page.goto(f"{served.url}/review?queue=unlabelled")
        page.get_by_role("link", name="Start: the next session").click()
        form = page.locator("form[data-labelling]")
        labelled = []
        for number in range(20):
            labelled.append(form.get_attribute("action") or "")
            page.wait_for_load_state("domcontentloaded")  # from then on it listens to keys
            page.keyboard.press("pf"[number % 2])
            expect(page.locator(f"form[data-labelling][action='{labelled[-1]}']")).to_have_count(0)
        page.wait_for_load_state("domcontentloaded")
        page.keyboard.press("u")
        expect(page.locator(f"form[data-labelling][action='{labelled[-1]}']")).to_have_count(1)
    given = [one.label for one in spangrade.open(db).external_scores() if one.author == "bob"]
    assert (len(set(labelled)), sorted(given, key=str)) == (20, ["fail"] * 9 + ["pass"] * 10)
