"""All that the pages show, as lines of text in `tests/cases/pages`: each element with its text and its links.

`WRITE_CASES=1 pytest tests/evaluator/view/test_whole_pages.py` writes them, to be read in the diff.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest
from case_database import every_value, labelled
from cases import FOLDER, compare
from made_once import made_once
from many_sessions import two_hundred
from pages import name, parsed, parsed_part
from paths import ROOT, SAMPLE
from serving import Served, serving

import spangrade as package
from spangrade.evaluator.apps.server.pages.labelling import Reviewer

# Charts by their points, controls by their values, links by their addresses.
ATTRIBUTES = (
    *("href", "src", "action", "title", "value", "class", "name", "id", "rel", "open", "checked", "selected"),
    *("datetime", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "points", "d", "cx", "cy", "r"),
)
# What differs from run to run.
CHANGING = (
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"(?<=run[=/])[0-9a-f]{6,}|(?<=: )([0-9a-f]{12}|[0-9a-f]{8})$", re.MULTILINE), "RUN"),
    (re.compile(r"(?<![\w-])20(?!26-0[1-4])\d\d-\d\d-\d\d([ T]\d\d:\d\d(:[\d.]+)?)?"), "TIME"),
    (re.compile(r"(?<![\w-])20(?!26-0[1-4])\d\d-(0[1-9]|1[0-2])$", re.MULTILINE), "MONTH"),
    (re.compile(r"/\S+\.duckdb"), "DB"),
    (re.compile(rf"{re.escape(str(ROOT))}/"), ""),
    (re.compile(r"(?<=value=)\S+(?= name=token)"), "TOKEN"),
    (re.compile(r"(?<=data-ago=)\"?\d+\"?|\d+ (s|min|h) ago"), "AGO"),
)
MOST_LINES = 700
GOLDEN = SAMPLE / "customer_service_golden.json"

PAGES: Mapping[str, Mapping[str, str]] = {
    "every_value": {
        "overview": "/overview?since=2026-01-03",
        "causes": "/overview/causes?since=2026-01-01",
        "sessions": "/sessions?sort=cost",
        "sessions_filtered": "/sessions?q=verdict%3Afailed+cost%3E0&min_latency=1&sort=latency",
        "tools": "/tools",
        "tools_by_version": "/tools?by=version",
        "trends": "/trends?series=version&since=2026-01-01&until=2027-01-01",
        "runs": "/runs",
        "run": "/run/after?against=before",
        "run_rows": "/run/after/rows?against=before&skip=100",
        "run_summary": "/run/after/summary",
        "compare": "/compare?a=before&b=after",
        "compare_sessions": "/compare/sessions?first=conv-1&second=conv-30",
        **{f"session_{number}": f"/session/conv-{number}" for number in (0, 17, 44, 90, 131)},
        "session_file": "/session/conv-17/file.html",
        "session_copied": "/session/conv-44/file.json",
    },
    "two_hundred": {
        "many_overview": "/overview?since=2026-02-01",
        "many_sessions": "/sessions?sort=tokens&q=model%3Agpt-5",
        "many_sessions_second": "/sessions?sort=verdict&tool=refund&errors=with",
        "many_compare": "/compare?a=run-1&b=run-2",
        "many_run": "/run/run-2?against=run-1",
        "many_summary": "/run/run-1/summary",
        "many_trends": "/trends?since=2026-01-01&until=2026-04-01",
        "many_tools": "/tools?since=2026-02-01",
        "count": "/count?verdict=failed",
        "suggestions": "/suggestions/tool",
    },
    "labelled": {
        "judge": "/judge?metric=tool_success_rate",
        "judges": "/judge",
        "review": "/review",
        "review_disputed": "/review?queue=disputed",
        "review_sampled": "/review?queue=sampled&seed=2",
        "session_labelled": "/session/s03",
        "session_failed": "/session/s05",
    },
    "sample": {
        "sample_session": "/session/conversation-2",
        "sample_golden_question": "/session/conversation-2/golden-question",
        "sample_correct": "/session/conversation-2/correct",
        "sample_run": "/run/strict?against=first",
        "sample_summary": "/run/strict/summary",
        "sample_compare": "/compare?a=first&b=strict",
        "sample_unasked": "/compare?a=unasked_one&b=unasked_two",
        "sample_trends": "/trends?since=2025-01-01&until=2027-01-01",
    },
}  # fmt: skip


MOST_DIFFERENT, MOST_CHARS = 10, 300


def sample() -> Path:
    def make(db: Path) -> None:
        opened = package.open(db)
        opened.import_files(SAMPLE / "spans.otlp.jsonl")
        questions = json.loads(GOLDEN.read_text())["golden_questions"]
        unasked = [{"id": f"unasked-{n}", "user_inputs": [f"Never {n}?"], "goal": "none"} for n in range(3)]
        opened.grade([*questions, unasked[0]], name="unasked_one")
        opened.grade([*questions, *unasked[1:]], name="unasked_two")
        opened.grade(GOLDEN, name="first")
        opened.grade(
            GOLDEN,
            gates=["cost<=0.0001", "latency_metrics<=1"],
            name="strict",
        )

    return made_once("sample-graded-twice", make)


DATABASES = {
    "every_value": every_value,
    "two_hundred": two_hundred,
    "labelled": labelled,
    "sample": sample,
}


@pytest.fixture(scope="module", params=DATABASES)
def served(request: pytest.FixtureRequest) -> Iterator[tuple[str, Served]]:
    with serving(
        DATABASES[request.param](), Reviewer("ann", GOLDEN if request.param == "sample" else None)
    ) as one:
        yield request.param, one


def lines(element: Element, depth: int = 0) -> Iterator[str]:
    """Yield an element with its text, and those in it."""
    if name(element) in ("head", "header", "style", "script"):
        return
    shown = [f"{key}={element.get(key)}" for key in ATTRIBUTES if element.get(key)]
    shown += [f"{key}={value}" for key, value in element.attrib.items() if key.startswith("data-")]
    own = " ".join((element.text or "").split())
    if shown or own:
        yield f"{' ' * depth}{name(element)} {' '.join(shown)}: {own}"
    for inner in element:
        if isinstance(inner.tag, str):
            yield from lines(inner, depth + 1)
        if rest := " ".join((inner.tail or "").split()):
            yield f"{' ' * depth} … {rest}"


def lines_of(path: str, body: str) -> Iterator[str]:
    if path.endswith(".json"):
        return iter(body.splitlines())
    if body.lstrip().lower().startswith("<!doctype"):
        return lines(parsed(body))
    return lines(parsed_part(body, "tbody" if "/rows" in path else "div"))


def test_a_page_shows_what_it_is_to_show(served: tuple[str, Served]) -> None:
    database, pages = served
    different: list[str] = []
    for title, path in PAGES[database].items():
        answer = pages.get(path)
        assert answer.status == 200, (path, answer.text)
        found = "\n".join(list(lines_of(path, answer.text))[:MOST_LINES]) + "\n"
        for changing, word in CHANGING:
            found = changing.sub(word, found)
        file = FOLDER / "pages" / f"{title}.txt"
        if "WRITE_CASES" in os.environ:
            file.parent.mkdir(exist_ok=True)
            file.write_text(found, "utf-8")
        known = file.read_text("utf-8").splitlines()
        different += difflib.unified_diff(known, found.splitlines(), path, "found", n=1, lineterm="")
    assert not different, "\n".join(different[:80])


def test_what_is_asked_of_a_page_changes_what_it_is_to_change(served: tuple[str, Served]) -> None:
    """Each query of `tests/cases/queries`, by the page that it changes: what lines are then others."""
    database, pages = served
    file = FOLDER / "queries" / f"{database}.json"
    found: dict[str, dict[str, Any]] = {}
    for page, queries in json.loads(file.read_text("utf-8")).items():
        whole = source_lines(pages, page)
        found[page] = {}
        for query in queries:
            asked = source_lines(pages, f"{page}{'&' if '?' in page else '?'}{query}")
            diff = list(difflib.unified_diff(whole, asked, n=0, lineterm=""))[2:]
            different = [line for line in diff if not line.startswith("@@")]
            shown = [line[:MOST_CHARS] for line in different[:MOST_DIFFERENT]]
            found[page][query] = [*shown, f"{len(different)} lines"]
    compare(file, found)


def source_lines(pages: Served, path: str) -> list[str]:
    """Return the source of a page, an element a line, with its status where that is not 200."""
    answer = pages.get(path)
    text = re.sub(r"\s*\n\s*|(?=<[a-z])", "\n", answer.text.partition("<main")[2] or answer.text)
    text = text if answer.status == 200 else f"{answer.status} {text}"
    text = re.sub(r"\b[0-9a-f]{12}\b", "RUN", text)
    for changing, word in CHANGING:
        text = changing.sub(word, text)
    return [line for line in text.splitlines() if line]
