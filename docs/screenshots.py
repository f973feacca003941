"""Draw the pictures of `docs/view.md` and the README: pages of `spangrade view` on the sample dataset.

    uv run --isolated --extra dev --group browser python docs/screenshots.py

needs Debian's Chromium (`apt-get install chromium`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import spangrade

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SAMPLE = "datasets/customer_service"
MAX_BYTES = 200_000
GATES = ["tool_success_rate>=0.9", "cost<=0.01"]


def draw(page: Page, address: str, name: str, height: int) -> None:
    """Write the picture of a page, and fail if it is too large for a repository."""
    page.set_viewport_size({"width": 1200, "height": height})
    page.goto(address)
    page.wait_for_load_state("networkidle")
    file = DOCS / f"{name}.png"
    page.screenshot(path=file)
    if file.stat().st_size > MAX_BYTES:
        raise SystemExit(f"{file}: {file.stat().st_size:,} bytes; expected at most {MAX_BYTES:,}")
    print(f"{file}: {file.stat().st_size:,} bytes")


def main() -> None:
    """Grade the sample, serve it, and draw its pages."""
    os.chdir(ROOT)  # the pages show the path of the dataset as it is given
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "spangrade.duckdb"
        spangrade.open(db).grade(SAMPLE, name="before")
        spangrade.open(db).grade(SAMPLE, name="after", gates=GATES)
        command = [sys.executable, "-m", "spangrade", "view", "--db", str(db), "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            found = re.search(r"http://\S+:\d+", server.stderr.readline() if server.stderr else "")
            if found is None:
                raise SystemExit("spangrade view does not start")
            with sync_playwright() as started:
                browser = started.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox"]
                )
                page = browser.new_page(color_scheme="light")
                draw(page, f"{found[0]}/", "view_sessions", 640)
                draw(page, f"{found[0]}/session/conversation-3", "view_session", 900)
                draw(page, f"{found[0]}/run/after", "view_run", 900)
                dark = browser.new_page(color_scheme="dark")
                draw(dark, f"{found[0]}/session/conversation-2", "view_session_dark", 900)
                browser.close()
            server.terminate()


if __name__ == "__main__":
    main()
