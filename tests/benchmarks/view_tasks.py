"""Measure the ten tasks of docs/pages.md:

`python tests/benchmarks/view_tasks.py DB`.

DB has sessions with spans, and two runs on one dataset, in the later of which at least ten sessions failed.
Each task is done in Chromium against `spangrade view`, on a copy of the database, five times from the page of
sessions on. Printed are its clicks, and the least CPU seconds of the server and of the page (the renderer's
process). Nobody reads or thinks: these are the machine's seconds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))

from playwright.sync_api import Browser, Page, expect, sync_playwright
from ten_tasks import TASKS, Facts, Person, facts_of

TIMES = 5


@contextmanager
def serving(python: str, db: Path, *options: str) -> Iterator[tuple[str, int]]:
    """Run `spangrade view` on a copy of a database; give its address and its process id."""
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "copy.duckdb"
        shutil.copyfile(db, own)
        command = [python, "-m", "spangrade", "view", "--db", str(own), "--port", "0", *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            assert server.stdout is not None
            found = None
            for line in server.stdout:
                if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                    break
            assert found is not None, "it does not start"
            try:
                yield found[0], server.pid
            finally:
                server.terminate()


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def renderer_seconds(browser: Browser) -> dict[int, float]:
    """Return the CPU time of the processes that make and run pages, by their ids."""
    devtools = browser.new_browser_cdp_session()
    found = devtools.send("SystemInfo.getProcessInfo")["processInfo"]
    devtools.detach()
    return {one["id"]: one["cpuTime"] for one in found if one["type"] == "renderer"}


def measured(browser: Browser, server: int, page: Page, work: Callable[[], int]) -> tuple[int, float, float]:
    """Return the clicks of a task, and the CPU seconds of the server and of the page."""
    before, at_server = renderer_seconds(browser), cpu_seconds(server)
    clicks = work()
    page.wait_for_load_state("networkidle")
    after = renderer_seconds(browser)
    in_page = sum(seconds - before.get(one, 0) for one, seconds in after.items())
    return clicks, cpu_seconds(server) - at_server, in_page


def measure(
    python: str, db: Path, facts: Facts, tasks: Mapping[str, Callable[[Person], None]], *options: str
) -> None:
    """Print what each task takes."""
    with serving(python, db, *options) as (url, server), sync_playwright() as started:
        path = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.set_default_timeout(120_000)
        expect.set_options(timeout=120_000)
        for name, do in tasks.items():

            def work(do: Callable[[Person], None] = do) -> int:
                person = Person(page, url, facts)
                page.goto(f"{url}/sessions")
                do(person)
                return person.clicks

            page.goto(url)  # the page's process is there
            found = [measured(browser, server, page, work) for _ in range(TIMES)]
            (clicks,) = {clicks for clicks, *_ in found}
            at_server, in_page = (min(column) for column in list(zip(*found, strict=True))[1:])
            print(f"{name:45} {clicks} clicks  server {at_server:5.2f} s  page {in_page:5.2f} s", flush=True)
        browser.close()


def main(arguments: list[str]) -> None:
    """Measure the tasks."""
    db = Path(arguments[0])
    facts = facts_of(db)
    with tempfile.TemporaryDirectory() as folder:
        reviewer = ("--allow-labels", "--as", "ann", "--golden", f"{folder}/golden.json")
        measure(sys.executable, db, facts, {task.name: task.do for task in TASKS}, *reviewer)


if __name__ == "__main__":
    main(sys.argv[1:])
