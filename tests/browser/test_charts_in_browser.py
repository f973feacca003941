"""Charts in a real browser: one crosshair for all of a page, dragging, the keyboard, points with links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("playwright", reason="needs the group `browser`")
from axe import serious_findings
from many_sessions import write_sessions
from playwright.sync_api import Browser, Locator, Page, expect
from serving import Served, serving

SESSIONS = 900  # ten a day, from 2026-01-01 to 2026-03-31


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    db: Path = tmp_path_factory.mktemp("charts") / "many.duckdb"
    write_sessions(db, SESSIONS)
    with serving(db) as one:
        yield one


def at(plot: Locator, share: float) -> tuple[float, float]:
    """Return the point of the window at a share of a plot, from its first slot to its last one."""
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    return box["x"] + box["width"] * share, box["y"] + box["height"] / 2


def legends(page: Page) -> list[list[str]]:
    """Return the values of each chart at the crosshair: the day, then those of the series."""
    found: list[list[str]] = page.locator(".charts figure").evaluate_all(
        "all => all.map(one => [...one.querySelectorAll('.u-value')].map(value => value.textContent))"
    )
    return found


def test_one_crosshair_shows_the_values_of_all_charts_at_a_time_with_their_number(
    page: Page, served: Served
) -> None:
    page.goto(f"{served.url}/trends?series=environment")
    plots = page.locator(".u-over")
    expect(plots).to_have_count(7)
    page.mouse.move(*at(plots.first, 9 / 89))
    expect(page.locator(".u-value", has_text="2026-01-10")).to_have_count(7)
    row = page.locator(".scroll tbody tr", has_text="2026-01-10")
    sessions, graded, _, rate, cost = row.get_by_role("cell").all_inner_texts()[2:7]
    assert legends(page)[:3] == [
        ["2026-01-10", sessions],
        ["2026-01-10", f"{rate}, n {graded}"],
        ["2026-01-10", f"{cost}, n {sessions}"],
    ]
    page.mouse.move(5, 5)
    expect(page.locator(".u-value", has_text="2026-01-10")).to_have_count(0)


def test_the_first_day_of_a_version_is_said_at_the_crosshair(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/trends")
    names = page.locator(".charts figure").first.locator(".u-label").all_inner_texts()
    assert sorted(names) == ["1.0", "1.1", "1.2", "1.3", "1.4", "day"]
    page.locator(".charts figure").first.focus()
    page.keyboard.press("Home")
    first = legends(page)[0][0]
    assert first.startswith("2026-01-01, first session of version 1.") or first == "2026-01-01"
    page.keyboard.press("ArrowRight")
    assert any("first session of version" in one for one in (first, legends(page)[0][0]))


def test_dragging_chooses_the_time_of_the_header(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/trends?series=environment")
    plot = page.locator(".u-over").nth(1)
    page.mouse.move(*at(plot, 9 / 89))
    page.mouse.down()
    page.mouse.move(*at(plot, 15 / 89), steps=4)
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


def test_a_click_on_a_point_leads_to_its_sessions(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/trends?series=environment")
    plot = page.locator(".u-over").first  # ten sessions a day: all points are at one height
    x, _ = at(plot, 20 / 89)
    box = plot.bounding_box()
    assert box is not None
    page.mouse.click(x, box["y"] + box["height"] - 2)  # far from every point
    assert page.url == f"{served.url}/trends?series=environment"
    page.mouse.click(x, box["y"] + 6)
    page.wait_for_url("**/sessions?**")
    given = parse_qs(urlsplit(page.url).query)
    assert given == {"origin": ["production"], "since": ["2026-01-21"], "until": ["2026-01-22"]}
    expect(page.locator("#results [role=status]")).to_have_text("10 sessions")


def test_arrows_move_through_a_chart_shift_chooses_and_enter_shows(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/trends?series=environment")
    chart = page.locator(".charts figure").nth(1)
    chart.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(chart.locator(".u-value").first).to_have_text("2026-01-02, first session of version 1.3")
    expect(chart.locator("[role=status]")).to_have_text(
        re.compile(r"^2026-01-02, first session of version 1.3; \S+%, n \d+$")
    )
    for _ in range(3):
        page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url("**since=2026-01-02&until=2026-01-06")
    page.locator(".charts figure").first.focus()  # with Tab a chart is one step, not one for each point
    page.keyboard.press("Tab")
    expect(page.locator(".charts figure").nth(1)).to_be_focused()


def test_the_page_says_what_a_hollow_point_is_and_colours_are_those_of_the_page(
    page: Page, served: Served
) -> None:
    page.goto(f"{served.url}/trends?series=environment")
    expect(page.get_by_text("A hollow point is of fewer than 10 sessions.")).to_be_visible()
    drawn = (
        "one => { const pixels = one.getContext('2d').getImageData(0, 0, one.width, one.height).data;"
        " const colours = new Set(); for (let at = 0; at < pixels.length; at += 4)"
        " if (pixels[at + 3] === 255) colours.add(pixels.slice(at, at + 3).join()); return [...colours]; }"
    )
    ink = (
        "one => { one.style.color = 'var(--model)'; return `${getComputedStyle(one).color.match(/\\d+/g)}`; }"
    )
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        wanted = page.locator("h1").evaluate(ink)
        page.wait_for_function(
            f"wanted => ({drawn})(document.querySelector('canvas')).includes(wanted)", arg=wanted
        )


def test_a_page_without_scripts_has_the_table_alone(chromium: Browser, served: Served) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{served.url}/trends?series=environment")
    expect(page.locator("figure:visible")).to_have_count(0)
    expect(page.locator("tbody tr")).to_have_count(90)
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.short_form("scheme", 2)
def test_a_crosshair_is_accessible(page: Page, served: Served, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(f"{served.url}/trends?since=2026-01-10&until=2026-01-17")
    page.locator(".charts figure").first.focus()
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
