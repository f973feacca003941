"""report.html from disk, with the network off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the group `browser`")
from axe import serious_findings
from hard_sessions import golden, store_session
from paths import SAMPLE
from playwright.sync_api import Page, expect

import spangrade


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    metrics = ["trajectory_single_tool_use:apply_discount", "cost<=0.0002"]
    spangrade.open(folder / "s.duckdb").grade(SAMPLE, gates=metrics, out=folder / "out")
    return (folder / "out" / "report.html").as_uri()


@pytest.fixture
def offline(page: Page) -> Iterator[Page]:
    page.context.set_offline(True)
    yield page
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0


def rows(page: Page) -> list[str]:
    return page.locator("table.sortable tbody tr:visible td:nth-child(2)").all_inner_texts()


def test_it_sorts_and_filters_its_sessions(offline: Page, report: str) -> None:
    offline.goto(report)
    cost = offline.locator("th button", has_text="Cost")
    cost.click()
    assert rows(offline)[0] == "conversation-1"
    cost.click()
    assert rows(offline)[0] == "conversation-3"
    expect(offline.locator("th[aria-sort=descending]")).to_have_text("Cost")
    offline.locator("[data-filter-text]").fill("return_by")
    assert rows(offline) == ["conversation-4"]
    expect(offline.locator("[data-filter-count]")).to_have_text("1 rows")


def test_a_session_is_unfolded_and_its_evidence_followed(offline: Page, report: str) -> None:
    offline.goto(report)
    expect(offline.locator("details.whole[open]")).to_have_count(0)
    offline.locator("#sessions").get_by_role("link", name="conversation-3").click()
    whole = offline.locator("details.whole[open]")
    expect(whole).to_have_count(1)
    link = whole.locator("[data-metric='trajectory_single_tool_use:apply_discount'] a.evidence")
    link.click()
    target = offline.locator(offline.url.partition("#")[2].join(["#", ""]))
    expect(target).to_be_in_viewport()
    expect(target).to_have_class("span tool failed critical lit")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_in_both_colours(offline: Page, report: str, scheme: str) -> None:
    offline.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    offline.goto(report)
    back = offline.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}[scheme]
    offline.locator("details.whole > summary").first.click()
    assert serious_findings(offline) == []


def test_nothing_that_was_recorded_runs(offline: Page, tmp_path: Path) -> None:
    store_session(tmp_path / "s.duckdb")
    (tmp_path / "golden.json").write_text(json.dumps(golden()), encoding="utf-8")
    spangrade.open(tmp_path / "s.duckdb").grade(tmp_path / "golden.json", out=tmp_path / "out")
    offline.goto((tmp_path / "out" / "report.html").as_uri())
    for summary in offline.locator("details:not([open]) > summary").all():
        if summary.is_visible():
            summary.click()
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
