"""Every kind of page of every recording: no error in the console, no text over another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the group `browser`")
from overlaps import overlaps
from paths import FIXTURES
from playwright.sync_api import Page, expect
from serving import Served, serving

import spangrade
from spangrade.evaluator.reports.html.links import url_part

GATES = ["tool_success_rate>=0.9", "cost<=0.001"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    opened = spangrade.open(folder / "s.duckdb")
    opened.import_files(sorted(FIXTURES.rglob("*.otlp.jsonl")))
    opened.grade(gates="cost<=1", name="before")
    opened.grade(gates=GATES, name="after", out=folder / "out")
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with serving(folder / "s.duckdb") as one:
        yield one


def overlapping(page: Page, address: str) -> list[str]:
    page.goto(address)
    expect(page.locator("[aria-busy]")).to_have_count(0)
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return overlaps(page) + ([f"{wide} pixels too wide"] if wide > 0 else [])


def test_pages_of_all_recordings(page: Page, served: Served) -> None:
    paths = (
        "/overview?since=2025-01-01",
        "/sessions",
        "/sessions?sort=cost",
        "/runs",
        "/run/after",
        "/compare?a=before&b=after",
        "/trends",
        "/trends?metric=tool_success_rate",
        "/tools?origin=any&by=version",
    )
    found = {path: overlapped for path in paths if (overlapped := overlapping(page, served.url + path))}
    assert found == {}


@pytest.mark.exhaustive
def test_the_pages_of_half_of_the_sessions(page: Page, served: Served, folder: Path) -> None:
    """Every second session, in turn at a desk and on a phone; the report opens each of them."""
    ids = [
        row["session_id"] for row in spangrade.open(folder / "s.duckdb").sql("FROM derived.sessions").rows()
    ]
    assert len(ids) > 100
    found = {}
    for number, one in enumerate(sorted(ids)[::2]):
        page.set_viewport_size({"width": 360 if number % 2 else 1440, "height": 900})
        if overlapped := overlapping(page, f"{served.url}/session/{url_part(one)}"):
            found[one] = overlapped
    assert found == {}


@pytest.mark.exhaustive
def test_each_session_of_the_report(page: Page, folder: Path) -> None:
    page.goto((folder / "out" / "report.html").as_uri())
    assert overlaps(page) == []
    links = page.locator(".grid tbody tr").count()
    assert links > 30
    opened = page.evaluate(
        """async () => {
          const counts = [];
          for (let number = 0; ; number++) {
            const last = [...document.querySelectorAll("template[data-group=session]")].at(-1).dataset;
            if (number === Number(last.first) + Number(last.count)) return counts;
            location.hash = `s${number}`;
            while (!document.getElementById(`s${number}`)) await new Promise((done) => setTimeout(done, 5));
            counts.push(document.querySelectorAll("#opened .panes").length);
          }
        }"""
    )
    assert opened == [1] * len(opened)
    assert len(opened) > 100
