"""Draw the pictures of `docs/pages.md` and the README: pages of `spangrade view` on the sample dataset.

    uv run --isolated --extra dev --group browser python docs/screenshots.py
    uv run --isolated --extra dev --group browser python docs/screenshots.py pictures shop.duckdb …

The second draws, into a folder, all pages of the sample dataset and of each database that is named, light and
dark, at 1440 and 390 pixels, to be looked at. It needs Debian's Chromium (`apt-get install chromium`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from many_sessions import write_sessions

import spangrade
from spangrade.evaluator.reports.html.links import url_part
from spangrade.evaluator.reports.html.report import write_report

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SAMPLE = "datasets/customer_service"
MAX_BYTES = 1_500_000  # of the pictures of the documentation together
SESSIONS = 4_000  # of the generated database whose charts are drawn
WIDTH, HEIGHT = 1440, 900
_RUNS = "SELECT run_id FROM runs ORDER BY graded_at DESC LIMIT 2"
_SESSION = "SELECT session_id FROM sessions ORDER BY errors DESC, session_id LIMIT 1"
GATES = ["tool_success_rate>=0.9", "cost<=0.01"]


def draw(page: Page, address: str, file: Path, width: int, height: int, *, crosshair: bool = False) -> None:
    """Write the picture of a page, with the crosshair on its charts if asked."""
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address)
    page.wait_for_load_state("networkidle")
    if crosshair:
        page.locator(".u-over").first.hover()
    page.screenshot(path=file)


@contextmanager
def served(db: Path) -> Iterator[str]:
    """Serve the pages of a database, with labelling, and give their address."""
    labelling = ["--allow-labels", "--as", "ann", "--golden", "golden.json"]
    command = [sys.executable, "-m", "spangrade", "view", "--db", str(db), "--port", "0", *labelling]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        found = re.search(r"http://\S+:\d+", server.stderr.readline() if server.stderr else "")
        if found is None:
            raise SystemExit("spangrade view does not start")
        try:
            yield found[0]
        finally:
            server.terminate()


def sample_database(folder: Path) -> Path:
    """Return a database of the sample dataset, graded twice, with the report of the later run beside it."""
    db = folder / "spangrade.duckdb"
    spangrade.open(db).grade(SAMPLE, name="before")
    spangrade.open(db).grade(SAMPLE, name="after", gates=GATES, out=folder)
    return db


def draw_docs(new_page: Callable[[str], Page], db: Path) -> None:
    """Write the pictures of the documentation."""
    with served(db) as url:
        for name, path, scheme in (
            ("view_sessions", "/sessions", "light"),
            ("view_session", "/session/conversation-3", "light"),
            ("view_run", "/run/after", "light"),
            ("view_compare", "/compare?a=before&b=after", "light"),
        ):
            draw(new_page(scheme), url + path, DOCS / f"{name}.png", WIDTH, HEIGHT)
    many = db.with_name("shop.duckdb")
    write_sessions(many, SESSIONS)
    with served(many) as url:
        address = f"{url}/trends?since=2026-03-01"
        draw(new_page("light"), address, DOCS / "view_trends.png", WIDTH, HEIGHT, crosshair=True)
    sizes = {file: file.stat().st_size for file in sorted(DOCS.glob("view_*.png"))}
    for file, size in sizes.items():
        print(f"{file}: {size:,} bytes")
    if sum(sizes.values()) > MAX_BYTES:
        raise SystemExit(f"{sum(sizes.values()):,} bytes; expected at most {MAX_BYTES:,}")


def draw_all(new_page: Callable[[str], Page], db: Path, out: Path) -> None:
    """Write the pictures of all pages of a database, light and dark, for a desk and a phone."""
    out.mkdir(parents=True, exist_ok=True)
    runs = [url_part(run["run_id"]) for run in spangrade.open(db).sql(_RUNS).rows()]
    (first,) = spangrade.open(db).sql(_SESSION).rows()
    paths = {
        "overview": "/",
        "list": "/sessions",
        "no-session": "/sessions?q=no-such-words",
        "tools": "/tools",
        "judge": "/judge",
        "session": f"/session/{url_part(first['session_id'])}",
        "runs": "/runs",
        "trends": "/trends",
        "review": "/review",
    }
    if runs:
        paths |= {"run": f"/run/{runs[0]}", "summary": f"/run/{runs[0]}/summary"}
    if len(runs) > 1:
        paths["compare"] = f"/compare?a={runs[1]}&b={runs[0]}"
    with served(db) as url, tempfile.TemporaryDirectory() as folder:
        pages = {name: url + path for name, path in paths.items()}
        if runs:
            report = Path(folder) / "report.html"
            write_report(partial(spangrade.open(db).stored.reading, derived=False), runs[0], report)
            pages["report"] = report.as_uri()
        for scheme in ("light", "dark"):
            page = new_page(scheme)
            for width, height in ((1440, 900), (390, 844)):
                for name, address in pages.items():
                    draw(page, address, out / f"{name}-{width}-{scheme}.png", width, height)
    print(f"{out}: {len(list(out.glob('*.png')))} pictures")


def main() -> None:
    """Draw the pictures of the documentation or, with a folder, those of all pages of several databases."""
    given = [Path(text).resolve() for text in sys.argv[1:]]
    os.chdir(ROOT)  # the pages show the path of the dataset as it is given
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])

        def new_page(scheme: str) -> Page:
            return browser.new_page(color_scheme="dark" if scheme == "dark" else "light")

        sample = sample_database(Path(folder))
        if given:
            for db in (sample, *given[1:]):
                draw_all(new_page, db, given[0] / ("sample" if db == sample else db.stem))
        else:
            draw_docs(new_page, sample)
        browser.close()


if __name__ == "__main__":
    main()
