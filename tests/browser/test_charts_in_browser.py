"""Charts in a real browser: one crosshair for all of a page, dragging to a time, the keyboard, one legend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("playwright", reason="needs the group `browser`")
from axe import serious_findings
from many_sessions import write_sessions
from playwright.sync_api import Locator, Page, expect
from serving import Served, serving

SESSIONS = 900  # ten a day, from 2026-01-01 to 2026-03-31


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    db: Path = tmp_path_factory.mktemp("charts") / "many.duckdb"
    write_sessions(db, SESSIONS)
    with serving(db) as one:
        yield one


def at(chart: Locator, share: float) -> tuple[float, float]:
    """Return the point of the window at a share of a chart's plot."""
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    return box["x"] + (72 + 360 * share) / 440 * box["width"], box["y"] + box["height"] / 2


def test_one_crosshair_shows_the_values_of_all_charts_at_a_time_with_their_number(
    page: Page, served: Served
) -> None:
    page.goto(f"{served.url}/trends?series=environment")
    charts, tips = page.locator("svg.chart"), page.locator(".tip:visible")
    expect(charts).to_have_count(7)
    page.mouse.move(*at(charts.first, 9.5 / 90))
    expect(tips).to_have_count(7)
    assert set(page.locator(".tip-head").all_inner_texts()) == {"2026-01-10"}
    row = page.get_by_role("row", name="2026-01-10")
    sessions, graded, _, rate, cost = row.get_by_role("cell").all_inner_texts()[2:7]
    assert tips.nth(0).locator(".tip-row").all_inner_texts() == [sessions]
    assert " ".join(tips.nth(1).locator(".tip-row").inner_text().split()) == f"{rate} n {graded}"
    assert tips.nth(2).locator(".tip-value").inner_text() == cost
    places = charts.locator(".crosshair").evaluate_all("all => all.map(one => one.getAttribute('x1'))")
    assert (len(places), len(set(places))) == (7, 1)
    page.mouse.move(5, 5)
    expect(tips).to_have_count(0)


def test_there_is_one_legend_and_the_crosshair_has_its_names(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/trends")
    expect(page.locator(".legend")).to_have_count(1)
    names = page.locator(".legend .recorded").all_inner_texts()
    assert sorted(names) == ["1.0", "1.1", "1.2", "1.3", "1.4"]
    page.mouse.move(*at(page.locator("svg.chart").first, 0.5))
    shown = page.locator(".tip").first.locator(".tip-name").all_inner_texts()
    assert shown == [one for one in names if one in shown] != []


def test_dragging_chooses_the_time_of_the_header(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/trends?series=environment")
    chart = page.locator("svg.chart").nth(1)
    page.mouse.move(*at(chart, 9.5 / 90))
    page.mouse.down()
    page.mouse.move(*at(chart, 15.5 / 90), steps=4)
    expect(page.locator(".selection:visible")).to_have_count(7)
    page.mouse.up()
    page.wait_for_url("**since=**")
    given = parse_qs(urlsplit(page.url).query)
    assert given == {"series": ["environment"], "since": ["2026-01-10"], "until": ["2026-01-17"]}
    expect(page.locator(".scope > summary")).to_have_text("production · since 2026-01-10 · until 2026-01-17")
    expect(page.locator(".over")).to_contain_text("2026-01-10 to 2026-01-16 UTC, by day")
    assert page.get_by_role("link", name="Sessions").get_attribute("href") == (
        "/sessions?since=2026-01-10&until=2026-01-17"
    )
    page.get_by_role("link", name="Whole time").click()
    expect(page.locator(".over")).to_contain_text("2026-01-01 to 2026-03-31 UTC, by day")


def test_a_drag_to_the_left_from_a_point_chooses_too_and_escape_gives_it_up(
    page: Page, served: Served
) -> None:
    page.goto(f"{served.url}/trends?series=environment")
    chart = page.locator("svg.chart").first
    page.mouse.move(*at(chart, 20.5 / 90))
    page.mouse.down()
    page.mouse.move(*at(chart, 10.5 / 90), steps=4)
    page.keyboard.press("Escape")
    page.mouse.up()
    expect(page.locator(".selection:visible")).to_have_count(0)
    assert page.url == f"{served.url}/trends?series=environment"
    dot = chart.locator("circle").nth(20).bounding_box()
    assert dot is not None
    page.mouse.move(dot["x"] + 2, dot["y"] + 2)
    page.mouse.down()
    page.mouse.move(*at(chart, 10.5 / 90), steps=4)
    page.mouse.up()
    page.wait_for_url("**since=2026-01-11&until=2026-01-22")


def test_a_click_on_a_point_leads_to_its_sessions(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/trends?series=environment")
    chart = page.locator("svg.chart").first
    chart.scroll_into_view_if_needed()
    chart.locator("circle").nth(20).click()
    page.wait_for_url("**/sessions?**")
    expect(page.locator("#results [role=status]")).to_have_text("10 sessions")


def test_arrows_move_through_a_chart_shift_chooses_and_enter_shows(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/trends?series=environment")
    chart = page.locator("svg.chart").nth(1)
    chart.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".tip-head").nth(1)).to_have_text("2026-01-02")
    expect(page.locator("[data-said]")).to_contain_text("2026-01-02; ")
    expect(page.locator("[data-said]")).to_contain_text(", n 10")
    for _ in range(3):
        page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url("**since=2026-01-02&until=2026-01-06")
    page.locator("svg.chart").first.focus()  # with Tab a chart is one step, not one for each point
    page.keyboard.press("Tab")
    expect(page.locator("svg.chart").nth(1)).to_be_focused()


def test_the_small_pictures_of_tools_share_the_crosshair_and_the_time(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/tools")
    charts = page.locator("svg.small-chart")
    box = charts.nth(1).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 2, box["y"] + 10)
    expect(page.locator(".tip:visible")).to_have_count(1)
    expect(page.locator(".crosshair:not([style*=none])")).to_have_count(charts.count())
    page.mouse.down()
    page.mouse.move(box["x"] + 8, box["y"] + 10, steps=3)
    page.mouse.up()
    page.wait_for_url("**/tools?since=**")


def test_points_of_few_sessions_are_hollow_and_the_page_says_of_how_many(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/trends")
    expect(page.get_by_text("A hollow, faint point is of fewer than 10 sessions.")).to_be_visible()
    charts = page.locator("svg.chart")
    assert charts.nth(1).locator("circle.few").count() == charts.nth(1).locator("circle").count() > 0
    assert charts.first.locator(".few").count() == 0  # the numbers of sessions are what they are


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.short_form("scheme", 2)
def test_a_crosshair_is_accessible(page: Page, served: Served, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(f"{served.url}/trends")
    page.locator("svg.chart").first.focus()
    page.keyboard.press("End")
    assert serious_findings(page) == []


def test_on_a_phone_heads_are_one_line(page: Page, served: Served) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for path in (
        "/",
        "/trends?since=2026-01-10&until=2026-01-17",
        "/tools",
        "/runs",
        "/run/run-2?against=run-1",
    ):
        page.goto(served.url + path)
        heads = page.locator(".top nav, .grid thead tr, .title")
        assert max(heads.evaluate_all("all => all.map(one => one.offsetHeight)")) <= 48, path
        assert page.locator(".top").evaluate("one => one.offsetHeight") <= 80, path  # the search is below
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        expect(page.locator(".top nav [aria-current]")).to_be_in_viewport()


def test_how_long_ago_goes_on_while_the_page_is_open(page: Page, tmp_path: Path) -> None:
    from spangrade.tracer.store import Store

    db = tmp_path / "s.duckdb"
    write_sessions(db, 10)
    with Store.open(db) as store:
        store.query(
            "UPDATE runs SET graded_at = now()::TIMESTAMP - INTERVAL 59 MINUTE WHERE run_id = 'run-1'"
        )
    page.clock.install()
    with serving(db) as one:
        page.goto(f"{one.url}/runs")
        shown = page.locator("time", has_text="min ago")
        expect(shown).to_have_text("59 min ago")
        assert (shown.get_attribute("title") or "").endswith(" UTC")
        page.clock.fast_forward(2 * 3600 * 1000)
        expect(page.locator("time", has_text="ago")).to_have_text("2 h ago")
