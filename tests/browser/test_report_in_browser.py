"""report.html from disk, with the network off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the group `browser`")
from axe import serious_findings
from hard_sessions import golden, store_session
from otlp_sessions import Said, write_sessions
from overlaps import overlaps
from paths import SAMPLE
from playwright.sync_api import Page, expect

import spangrade
from spangrade.evaluator.apps.server.pages.export import export_run


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    metrics = ["trajectory_single_tool_use:apply_discount", "cost<=0.0002"]
    spangrade.open(folder / "s.duckdb").grade(SAMPLE, gates=metrics, out=folder / "out")
    return (folder / "out" / "report.html").as_uri()


@pytest.fixture(scope="module")
def site(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("export") / "site"
    export_run(spangrade.open(sample).stored, folder)
    return folder.as_uri()


@pytest.fixture
def offline(page: Page) -> Iterator[Page]:
    page.context.set_offline(True)
    yield page
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0


def rows(page: Page) -> list[str]:
    return page.locator(".grid tr[data-place] .ids").all_inner_texts()


def test_its_grid_is_filtered(offline: Page, report: str) -> None:
    offline.goto(report)
    assert len(rows(offline)) == 4
    offline.locator("[data-filter=text]").fill("A-1003")
    expect(offline.locator("[data-filter-total]")).to_have_text("1 row")
    expect(offline.locator(".grid a.row")).to_have_text(["Hi, where is my order A-1003?"])
    offline.locator("[data-filter=text]").fill("")
    offline.locator("[data-filter=verdict]").select_option("failed")
    expect(offline.locator("[data-filter-total]")).to_have_text("4 rows")
    offline.locator("[data-filter=verdict]").select_option("passed")
    expect(offline.locator("[data-filter-total]")).to_have_text("0 rows")


def test_a_session_is_opened_and_its_evidence_followed(offline: Page, report: str) -> None:
    offline.goto(report)
    expect(offline.locator("#opened")).to_be_hidden()
    offline.locator(".grid a.row", has_text="came late").click()
    opened = offline.locator("#opened")
    expect(opened.locator("h1")).to_contain_text("My order A-1002 came late.")
    expect(offline.locator("#overview")).to_be_hidden()
    opened.locator("[data-metric='trajectory_single_tool_use:apply_discount'] a.evidence").click()
    target = offline.locator(offline.url.partition("#")[2].join(["#", ""]))
    expect(target).to_be_in_viewport()
    expect(target).to_have_class("span tool failed critical lit")
    offline.keyboard.press("j")
    expect(opened.locator(".chosen")).to_have_count(1)
    opened.get_by_role("link", name="All questions").click()
    expect(opened).to_be_hidden()
    assert len(rows(offline)) == 4


def test_the_address_of_a_session_opens_it(offline: Page, report: str) -> None:
    offline.goto(f"{report}#s2")
    expect(offline.locator("#opened .turn").first).to_be_visible()
    offline.goto(f"{report}#s1")
    expect(offline.locator("#s1")).to_be_visible()
    expect(offline.locator("#s2")).to_have_count(0)
    offline.get_by_role("link", name="Questions", exact=True).click()
    expect(offline.locator(".grid tr[data-place]").first).to_be_visible()


def test_rows_and_sessions_of_a_long_run_are_read_as_they_come_into_view(
    offline: Page, tmp_path: Path
) -> None:
    sessions = [(f"s{number:03}", [Said(f"hello {number}", "yes")]) for number in range(350)]
    opened = spangrade.open(tmp_path / "s.duckdb")
    opened.import_files(write_sessions(tmp_path / "spans.jsonl", sessions))
    opened.grade(gates="cost<=1", out=tmp_path / "out")
    offline.goto((tmp_path / "out" / "report.html").as_uri())
    assert offline.locator(".grid tbody tr").count() < 60
    offline.evaluate("document.querySelector('.grid').scrollTop = 1e6")
    expect(offline.locator(".grid tr[data-place='349'] .row")).to_have_text("hello 349")
    offline.evaluate("document.querySelector('.grid').scrollTop = 0")
    offline.locator(".grid tr[data-place='9'] a.row").click()
    expect(offline.locator("#opened h1")).to_contain_text("s009")
    offline.go_back()
    offline.locator("[data-filter=text]").fill("hello 27")
    expect(offline.locator("[data-filter-total]")).to_have_text("11 rows")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.short_form("scheme", 2)
def test_it_is_readable_in_both_colours(offline: Page, report: str, scheme: str) -> None:
    offline.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    offline.goto(report)
    back = offline.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}[scheme]
    assert serious_findings(offline) == []
    assert overlaps(offline) == []
    offline.locator(".grid a.row").first.click()
    expect(offline.locator("#opened .turn").first).to_be_visible()
    assert serious_findings(offline) == []
    assert overlaps(offline) == []


@pytest.mark.parametrize("width", [1440, 360])
def test_files_fit_their_window_and_no_text_stands_over_another(
    offline: Page, report: str, site: str, width: int
) -> None:
    offline.set_viewport_size({"width": width, "height": 900})
    for address in (report, f"{report}#s2", f"{site}/index.html", f"{site}/session/conversation-3.html"):
        offline.goto(address)
        offline.locator("h1").locator("visible=true").first.wait_for()
        assert (address, overlaps(offline)) == (address, [])
        assert offline.evaluate("document.documentElement.scrollWidth") <= width, address


def test_nothing_that_was_recorded_runs(offline: Page, tmp_path: Path) -> None:
    store_session(tmp_path / "s.duckdb")
    (tmp_path / "golden.json").write_text(json.dumps(golden()), encoding="utf-8")
    spangrade.open(tmp_path / "s.duckdb").grade(tmp_path / "golden.json", out=tmp_path / "out")
    offline.goto((tmp_path / "out" / "report.html").as_uri())
    offline.locator(".grid a.row").first.click()
    expect(offline.locator("#opened .turn").first).to_be_visible()
    offline.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert offline.evaluate("window.attacked") is None
    assert offline.locator("main script, main iframe, main img, main form").count() == 0


def test_a_script_that_is_not_its_own_does_not_run(offline: Page, report: str, problems: list[str]) -> None:
    offline.goto(report)
    offline.evaluate(
        "() => { const own = document.createElement('script'); own.textContent = 'window.attacked = 1';"
        " document.body.append(own); }"
    )
    assert offline.evaluate("window.attacked") is None
    assert ["Content Security Policy" in problem for problem in problems] == [True]
    problems.clear()
