"""The pages of `spangrade view` in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the group `browser`")
from axe import serious_findings
from many_sessions import write_sessions
from overlaps import overlaps
from playwright.sync_api import Page, expect
from serving import Served, serving
from settled import settle

import spangrade
from spangrade.evaluator.apps.server.pages.labelling import Reviewer


@pytest.fixture(scope="module")
def served(sample: Path) -> Iterator[Served]:
    with serving(sample, Reviewer("ann")) as one:
        yield one


@pytest.fixture(scope="module")
def served_many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    db = tmp_path_factory.mktemp("browser") / "many.duckdb"
    write_sessions(db, 300)
    with serving(db) as one:
        yield one


@pytest.fixture(scope="module")
def run_path(sample: Path) -> str:
    (row,) = spangrade.open(sample).sql("SELECT run_id FROM runs ORDER BY graded_at DESC LIMIT 1").rows()
    return f"/run/{row['run_id']}"


def names(page: Page) -> list[str]:
    return page.locator("tr[data-session]").evaluate_all("all => all.map(one => one.dataset.session)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 380])
@pytest.mark.parametrize(
    "name",
    [
        "overview",
        "sessions",
        "tools",
        "session",
        "runs",
        "run",
        "compare",
        "two sessions",
        "trends",
        "metric",
        "review",
        "error",
    ],
)
@pytest.mark.short_form("scheme", 2)
@pytest.mark.short_form("width", 2)
def test_a_page_is_accessible_and_fits_in_its_window(
    page: Page, served: Served, run_path: str, name: str, width: int, scheme: str, problems: list[str]
) -> None:
    paths = {
        "overview": "/",
        "sessions": "/sessions",
        "tools": "/tools?origin=any",
        "session": "/session/conversation-3",
        "runs": "/runs",
        "run": run_path,
        "compare": "/compare?a=before&b=after",
        "two sessions": "/compare/sessions?first=conversation-1&second=conversation-2",
        "trends": "/trends",
        "metric": "/trends?metric=tool_success_rate",
        "review": "/review?queue=unlabelled",
        "error": "/session/none",
    }
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(served.url + paths[name])
    settle(page)
    assert serious_findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "scrolls sideways"
    if name == "error":  # the browser reports the status
        problems[:] = [one for one in problems if "404 (Not Found)" not in one]


@pytest.mark.parametrize("width", [1440, 360])
def test_no_text_stands_over_another(page: Page, served: Served, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    for path in (
        "/",
        "/sessions",
        "/tools?origin=any",
        "/session/conversation-3",
        "/runs",
        "/run/after",
        "/compare?a=before&b=after",
        "/compare/sessions?first=conversation-1&second=conversation-2",
        "/trends",
        "/trends?metric=tool_success_rate",
        "/review?queue=unlabelled",
        "/session/conversation-2?queue=unlabelled",
    ):
        page.goto(served.url + path)
        settle(page)
        assert (path, overlaps(page)) == (path, [])
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_a_legend_that_is_too_narrow_for_its_words_is_found(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/session/conversation-3")
    assert overlaps(page) == []
    # Two style sheets once had a class of one name: the legend of the timeline took the size of a chart's.
    page.evaluate(
        "document.styleSheets[0].insertRule('.kinds span { display: inline-block; width: 1.5rem; }', "
        "document.styleSheets[0].cssRules.length)"
    )
    assert overlaps(page) == ["other | on the critical path"]


def test_one_line_filters_the_list_and_the_address_has_it_all(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/sessions")
    assert names(page) == ["conversation-4", "conversation-3", "conversation-2", "conversation-1"]
    expect(page.locator("#results [role=status]")).to_have_text("4 sessions")
    page.get_by_role("link", name="verdict:failed").click()
    expect(page.locator("a.row")).to_have_count(2)
    assert names(page) == ["conversation-3", "conversation-2"]
    expect(page.locator("#results [role=status]")).to_have_text("2 sessions")
    line = page.get_by_label("Search and filter")
    line.fill("verdict:failed A-9999 cost<1")
    page.keyboard.press("Enter")
    expect(page.locator(".chip")).to_have_count(3)
    assert names(page) == ["conversation-2"]
    page.reload()
    assert names(page) == ["conversation-2"]
    page.locator(".chip", has_text="A-9999").click()
    expect(line).to_have_value("verdict:failed cost<1")
    expect(page.locator("a.row")).to_have_count(2)
    page.go_back()
    expect(page.locator("a.row")).to_have_count(1)
    assert names(page) == ["conversation-2"]


def test_the_line_completes_filters_and_the_values_that_occur(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/sessions")
    options = page.locator("#completions option")
    line = page.get_by_label("Search and filter")
    line.fill("errors:with to")
    assert "errors:with tool:" in options.evaluate_all("all => all.map(one => one.value)")
    line.fill("errors:with tool:")
    expect(options).to_have_count(4)
    line.fill("verdict:")
    assert 'verdict:"not graded"' in options.evaluate_all("all => all.map(one => one.value)")
    line.fill("tool:apply_discount")
    page.keyboard.press("Enter")
    expect(page.locator("a.row")).to_have_count(1)


def test_a_filter_that_cannot_be_used_says_so_and_stays(
    page: Page, served: Served, problems: list[str]
) -> None:
    page.goto(f"{served.url}/sessions")
    page.get_by_label("Search and filter").fill("cost>much")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("over_cost: 'much' is not a number")
    expect(page.get_by_label("Search and filter")).to_have_value("cost>much")
    problems[:] = [one for one in problems if "400 (Bad Request)" not in one]


def test_the_reader_chooses_the_columns(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/sessions?q=errors:without")
    page.get_by_text("View", exact=True).click()
    page.get_by_role("checkbox", name="Models").check()
    page.get_by_role("checkbox", name="Cost").uncheck()
    page.get_by_label("Sort by").select_option("latency")
    page.get_by_role("button", name="Show").click()
    heads = ["Verdict", "Session", "Started", "Latency", "Tokens", "Turns", "Agents", "Models"]
    expect(page.locator("thead th")).to_have_text(heads)
    page.locator(".chip").first.click()  # the columns stay when a filter goes
    expect(page.locator("thead th[aria-sort]")).to_have_text("Latency")
    expect(page.locator("thead th")).to_have_count(8)


@pytest.mark.parametrize(("width", "height", "share"), [(1440, 900, 0.45), (390, 844, 1)])
def test_the_first_session_is_on_the_first_screen(
    page: Page, served: Served, width: int, height: int, share: float
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(f"{served.url}/sessions?q=verdict:failed")
    box = page.locator("tr[data-session]").first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= height * share


def test_a_heading_sorts(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/sessions")
    page.locator("thead").get_by_role("link", name="Cost").click()
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Cost")
    assert names(page)[0] == "conversation-3"


def test_every_page_has_the_search_and_typed_words_are_no_keys(page: Page, served: Served) -> None:
    line = page.get_by_label("Search and filter")
    for path in ("/", "/runs", "/compare", "/trends", "/tools", "/judge"):
        page.goto(f"{served.url}{path}")
        page.keyboard.press("/")
        expect(line).to_be_focused()
        page.keyboard.type("gs j/k ? pf")
        expect(line).to_have_value("gs j/k ? pf")
        assert page.url == f"{served.url}{path}"
    line.fill("verdict:failed")
    page.keyboard.press("Enter")
    expect(page.locator("a.row")).to_have_count(2)
    page.keyboard.press("/")
    page.keyboard.type("A-9999")  # after a space
    expect(line).to_have_value("verdict:failed A-9999")
    page.keyboard.press("Enter")
    expect(page.locator("a.row")).to_have_count(1)


def test_g_and_a_letter_lead_to_a_page_and_a_letter_alone_to_none(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/tools")
    for keys in ("s", "r", "j", "x", "gx", "s", "ggs"):
        page.keyboard.type(keys)
    assert page.url == f"{served.url}/tools"
    for key, path in {"s": "/sessions", "c": "/compare", "r": "/runs", "o": "/overview"}.items():
        page.keyboard.type(f"g{key}")
        page.wait_for_url(f"{served.url}{path}")


def test_the_keyboard_goes_through_sessions_and_pages(page: Page, served_many: Served) -> None:
    page.goto(f"{served_many.url}/sessions")
    first = names(page)
    page.locator("a.row").nth(0).focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("a.row").nth(1)).to_be_focused()
    page.keyboard.press("j")  # a letter does nothing here
    page.keyboard.press("ArrowUp")
    expect(page.locator("a.row").nth(0)).to_be_focused()
    page.locator("a.row").last.focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name="Previous page")).to_be_visible()
    second = names(page)
    assert set(first).isdisjoint(second)
    page.locator("a.row").nth(2).focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/session/{second[2]}")


def test_the_colours_can_be_chosen_and_are_kept(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/sessions")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Dark").click()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(20, 23, 28)")
    page.goto(f"{served.url}/runs")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    page.get_by_role("button", name="Light").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light


def test_a_run_leads_to_its_sessions(page: Page, served: Served, run_path: str) -> None:
    page.goto(served.url + run_path)
    expect(page.locator("h1")).to_contain_text("after")
    page.get_by_role("link", name="2 failed").click()
    expect(page.locator("a.row")).to_have_count(2)
    expect(page.locator("td .verdict.failed")).to_have_count(2)


def test_a_comparison_leads_from_a_flip_to_both_sessions(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/compare")
    page.get_by_label("First run").fill("before")
    page.get_by_label("Second run").fill("after")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", name="Regressed: 2")).to_be_visible()
    page.get_by_text("other metrics").click()
    rows = page.locator(".differences tbody tr")
    assert rows.filter(has=page.locator("svg.interval")).count() > 10
    for row in rows.filter(has=page.locator("svg.interval")).all():
        assert row.locator("svg").get_attribute("aria-label") == row.locator("td").nth(3).inner_text()
    heights = {
        name: page.get_by_role("rowheader", name=name, exact=True).evaluate("one => one.clientHeight")
        for name in ("state_management_fidelity", "cost")
    }
    assert heights["state_management_fidelity"] == heights["cost"]
    page.get_by_role("link", name="side by side for").first.click()
    expect(page.locator(".side > p > .verdict")).to_have_text(["passed", "failed"])
    page.locator(".sides > div:nth-child(2) a.span-link").first.click()
    expect(page.locator(".lit").first).to_be_visible()
    assert "?run=" in page.url


def test_a_metric_is_drawn_over_time_with_its_numbers(page: Page, served_many: Served) -> None:
    page.goto(f"{served_many.url}/trends")
    page.locator("select[name=show]").select_option("metric:tools:recall")
    expect(page.locator(".charts canvas")).to_have_count(1)
    rows = page.get_by_role("region", name="tools:recall").locator("tbody tr")
    expect(rows.first).to_be_visible()
    assert 80 <= rows.count() <= 90  # days


def test_pictures_have_their_numbers_as_text(page: Page, served_many: Served) -> None:
    page.goto(f"{served_many.url}/run/run-1")
    page.get_by_text("Summary: ").click()
    section = page.locator("section.metric", has_text="latency_metrics")
    expect(section).to_be_visible()
    bars = section.locator("svg rect").count()
    section.get_by_text("Numbers").click()
    expect(section.locator("tbody tr")).to_have_count(bars)
    page.goto(f"{served_many.url}/trends")
    expect(page.locator(".charts figure canvas")).to_have_count(7)
    expect(page.locator("tbody tr").first).to_be_visible()


def test_pages_work_without_scripts(chromium, served_many: Served) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{served_many.url}/sessions")
    page.get_by_label("Search and filter").fill("verdict:failed")
    page.keyboard.press("Enter")
    page.wait_for_url("**/sessions?**")
    assert "verdict%3Afailed" in page.url
    assert set(page.locator("td .verdict").all_inner_texts()) == {"failed"}
    page.get_by_role("link", name="Next page").or_(page.locator(".chip")).first.click()
    context.close()
