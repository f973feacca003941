"""The longest values in every table and box: nothing leaves its box, and a row has one emphasis."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the group `browser`")
from otlp_sessions import START_NS, Call, Said, write_sessions
from playwright.sync_api import Page
from serving import Served, serving
from settled import settle
from widest import emphasised_twice, spills

import spangrade
from spangrade.evaluator.apps.server.pages.labelling import Reviewer

NAME = "an_unbroken_name_that_is_as_long_as_any_tool_or_model_of_an_agent_has_had_until_today"
WORDS = (
    "Where is my order, which was due three weeks ago and of which nobody could tell me anything? " * 6
).strip()
DAY_NS = 86_400 * 10**9
PAGES = (
    "/",
    "/sessions",
    "/sessions?q=verdict:failed",
    "/session/{failed}",
    "/session/{failed}#span-{span}",
    "/session/{passed}",
    "/runs",
    "/run/first",
    "/run/second",
    "/compare",
    "/compare?a=first&b=second",
    "/compare/sessions?first={failed}&second={passed}",
    "/trends",
    "/trends?series=model",
    "/trends?metric=passed",
    "/tools?origin=any",
    "/judge",
    "/review",
    "/review?queue=failed",
)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("widest")
    call = Call(f"tool_{NAME}", {f"key_{NAME}": "x" * 300}, {"status": "ok", "text": "y" * 900})
    wrong = Call(f"other_{NAME}", {"id": 10**18}, error=f"Error: {WORDS}")

    def sessions(of: str, fails: int) -> list[tuple[str, list[Said]]]:
        return [
            (
                f"{of}-{number}-session-{NAME}",
                [Said(f"{number} {WORDS}", WORDS, [call, *[wrong] * (number < fails)] * 6)],
            )
            for number in range(6)
        ]

    files = [
        write_sessions(
            folder / f"{of}.jsonl",
            sessions(of, fails),
            agent=f"agent_{NAME}",
            version=f"{of}-{NAME}",
            start_ns=at,
        )
        for of, fails, at in (("before", 1, START_NS), ("now", 4, START_NS + 2 * DAY_NS))
    ]
    opened = spangrade.open(folder / "s.duckdb")
    opened.import_files(files)
    questions = [
        {
            "id": f"question-{number}-{NAME}",
            "user_inputs": [f"{number} {WORDS}"],
            "reference_tool_interactions": [{"tool_name": f"tool_{NAME}"}],
        }
        for number in range(6)
    ]
    (folder / "golden.json").write_text(json.dumps({"golden_questions": questions}))
    opened.grade(folder / "golden.json", select=f"version:before-{NAME}", name="first")
    gates = ["tool_success_rate>=0.9", "cost<=0.00000001"]
    opened.grade(folder / "golden.json", select=f"version:now-{NAME}", gates=gates, name="second")
    for number in range(3):
        opened.label(f"now-{number}-session-{NAME}", "fail", by=f"ann.{NAME}", note=WORDS)
    return folder / "s.duckdb"


@pytest.fixture(scope="module")
def served(db: Path) -> Iterator[Served]:
    with serving(db, Reviewer("ann")) as one:
        yield one


@pytest.fixture(scope="module")
def pages(db: Path) -> list[str]:
    query = (
        "SELECT span_id FROM tool_interactions WHERE starts_with(session_id, 'now-0') "
        "ORDER BY position DESC LIMIT 1"
    )
    ((span,),) = [tuple(row.values()) for row in spangrade.open(db).sql(query).rows()]
    known = {"failed": f"now-0-session-{NAME}", "passed": f"now-5-session-{NAME}", "span": span}
    return [path.format(**known) for path in PAGES]


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        pytest.param(1440, "light", marks=pytest.mark.exhaustive),
        pytest.param(1280, "dark", marks=pytest.mark.exhaustive),
        (390, "light"),
    ],
)
def test_nothing_leaves_its_box_and_a_row_has_one_emphasis(
    page: Page, served: Served, pages: list[str], width: int, scheme: str
) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    found = []
    for path in pages:
        page.goto("about:blank")
        page.goto(served.url + path)
        settle(page)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        settle(page)
        short = path.replace(NAME, "…")
        found += [f"{short}: {one}" for one in (*spills(page), *emphasised_twice(page))]
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found.append(f"{short}: scrolls sideways")
    assert not found, "\n".join(found)


def test_the_buttons_of_the_timeline_stay_in_view_on_a_link_to_a_span(
    page: Page, served: Served, pages: list[str]
) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    (path,) = [one for one in pages if "#span-" in one]
    page.goto(served.url + path)
    settle(page)
    inside = page.locator(".timeline .controls").evaluate(
        "(one) => { const pane = one.closest('.timeline').getBoundingClientRect();"
        " const box = one.getBoundingClientRect(); return box.top >= pane.top && box.bottom <= pane.bottom; }"
    )
    bar = page.locator(".spans tr.lit, .spans tr:target").first
    in_view = bar.evaluate(
        "(one) => { const box = one.closest('.scroll').getBoundingClientRect();"
        " const row = one.getBoundingClientRect();"
        " return row.top >= box.top - 1 && row.bottom <= box.bottom + 1; }"
    )
    assert (inside, in_view) == (True, True)
