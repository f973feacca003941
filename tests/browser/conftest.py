"""A Chromium for the tests of pages: `uv run --isolated --extra dev --group browser pytest tests/browser`.

Without the group, or without Debian's Chromium, these tests are skipped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from paths import SAMPLE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A browser, started once."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=30_000)  # a busy machine is slow, not wrong
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def problems() -> list[str]:
    """What the page wrote to the console as an error, and what it requested from elsewhere."""
    return []


@pytest.fixture
def page(chromium: Browser, problems: list[str]) -> Iterator[Page]:
    """A page in a context of its own; the test fails if a script of it fails or asks another host."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    opened = context.new_page()
    opened.set_default_timeout(30_000)
    opened.on("pageerror", lambda error: problems.append(f"error: {error}"))
    opened.on("dialog", lambda dialog: (problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def note_message(message: ConsoleMessage) -> None:
        if message.type == "error":
            problems.append(f"console: {message.text}")

    def note_request(request: Request) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "file:", "data:", "blob:")):
            problems.append(f"request: {request.url}")

    opened.on("console", note_message)
    opened.on("request", note_request)
    yield opened
    context.close()
    assert problems == []


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of the sample dataset, graded twice: all passed, then by gates that some sessions miss."""
    import spangrade

    db = tmp_path_factory.mktemp("browser") / "sample.duckdb"
    opened = spangrade.open(db)
    opened.grade(SAMPLE, name="before")
    opened.grade(SAMPLE, name="after", gates=["tool_success_rate>=0.9", "cost<=0.01"])
    return db
