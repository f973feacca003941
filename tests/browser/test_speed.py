"""How quick pages are in the browser, by the CPU time of its main thread."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the group `browser`")
from hard_sessions import large_spans
from many_sessions import write_large_runs, write_sessions
from playwright.sync_api import CDPSession, Page, expect
from serving import serving

import spangrade
from spangrade.tracer.store import Store

FRAMES = 120
_SCROLL = """
async (frames) => {
  const grid = document.querySelector("[data-grid]");
  let most = 0;
  for (let frame = 0; frame < frames; frame++) {
    grid.scrollTop += 120;
    await new Promise(requestAnimationFrame);
    most = Math.max(most, grid.querySelectorAll("tbody tr").length);
  }
  return most;
}
"""


def main_thread(devtools: CDPSession) -> dict[str, float]:
    """Return the seconds of CPU time that tasks, and scripts alone, took so far."""
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    return {one["name"]: one["value"] for one in metrics if one["name"] in ("TaskDuration", "ScriptDuration")}


def started(page: Page) -> CDPSession:
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    return devtools


@pytest.mark.exhaustive
def test_a_grid_of_5_000_questions_and_20_metrics_scrolls_as_one_of_500(page: Page, tmp_path: Path) -> None:
    """How long a frame takes is the machine's; that it takes no longer in a large grid is the page's."""
    frame = {}
    for questions in (500, 5_000):
        db = tmp_path / f"grid-{questions}.duckdb"
        write_sessions(db, questions)
        write_large_runs(db, questions)
        with serving(db) as served:
            page.set_viewport_size({"width": 1440, "height": 900})
            page.goto(f"{served.url}/run/large-2?against=large-1")
            expect(page.locator(".grid thead th")).to_have_count(22)
            devtools = started(page)
            before = main_thread(devtools)
            most_rows = page.evaluate(_SCROLL, FRAMES)
            after = main_thread(devtools)
            expect(page.locator("tr.loading")).to_have_count(0)
            assert most_rows < 100
        frame[questions] = {name: (after[name] - before[name]) / FRAMES for name in after}
    print(
        {
            questions: {name: f"{1e3 * took:.1f} ms" for name, took in of.items()}
            for questions, of in frame.items()
        }
    )
    assert frame[5_000]["TaskDuration"] < 1.5 * frame[500]["TaskDuration"]
    assert frame[5_000]["ScriptDuration"] < 1 / 500


@pytest.mark.exhaustive
def test_the_timeline_of_5_000_spans_is_usable_within_a_second_of_scripts(page: Page, tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(large_spans(5_000))
    spangrade.open(tmp_path / "s.duckdb").derive()
    with serving(tmp_path / "s.duckdb") as served:
        page.goto(f"{served.url}/runs")
        devtools = started(page)
        before = main_thread(devtools)
        page.goto(f"{served.url}/session/large")
        expect(page.locator("tr.span")).to_have_count(500)
        page.keyboard.press("+")
        expect(page.locator("svg.time").first).to_have_attribute("viewBox", "250 0 500 10")
        after = main_thread(devtools)
    assert after["ScriptDuration"] - before["ScriptDuration"] < 1
