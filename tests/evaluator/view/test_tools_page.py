"""The page of tools and models: its numbers by call, the sessions that it leads to, and hostile names."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import builders
import pytest
from hard_sessions import store_session
from pages import dangers, elements, find_all, name, parsed, text
from serving import Served, serving

from spangrade import InputError
from spangrade.evaluator.apps.server.pages.tools_page import tools_page
from spangrade.evaluator.apps.server.pages.trends_page import trends_page
from spangrade.evaluator.derive import update
from spangrade.evaluator.derive.schema import TABLES
from spangrade.evaluator.derive.session_rows import rows_of
from spangrade.evaluator.reports.html.sessions_page import sessions_page
from spangrade.evaluator.session import Error, Session
from spangrade.evaluator.statistics.trends.trend import trend
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_rows

DAY_NS = 86_400 * 10**9


def planted() -> list[Session]:
    """Return a session with two models, another with two agents, and a drill."""
    two_models = builders.session(
        [
            (
                "hi",
                [
                    builders.tool("refund", latency_s=1.0),
                    builders.tool("refund", ok=False, error="no", latency_s=3.0),
                    builders.tool("look_up", latency_s=0.5),
                ],
            )
        ],
        session_id="two models",
        agent_version="1.0",
        llm_calls=(
            builders.llm("small", (10, 1), cost_usd=0.25, latency_s=1.0, span_id="a"),
            builders.llm("large", (100, 20), cost_usd=4.0, latency_s=3.0, span_id="b"),
            builders.llm("small", (None, None), cost_usd=None, latency_s=5.0, span_id="c", unanswered=True),
        ),
        models=("small", "large"),
    )
    two_agents = builders.session(
        [
            (
                "hi",
                [
                    builders.tool("refund", agent="desk", ok=None, latency_s=None),
                    builders.tool("refund", ok=None, approval="asked"),
                    builders.tool("refund", ok=None, approval="rejected"),
                    builders.tool("refund", approval="approved", latency_s=2.0),
                    builders.tool("transfer_to_desk", handoff=True),
                ],
            )
        ],
        session_id="two agents",
        start_ns=DAY_NS,
        agents=("shop", "desk"),
        agent_version="2.0",
        llm_calls=(
            builders.llm("large", (None, None), cost_usd=None, latency_s=2.0, span_id="a"),
            builders.llm("large", (7, 3), cost_usd=0.5, latency_s=4.0, agent="desk", span_id="b"),
            builders.llm(None, (1, 1), cost_usd=None, latency_s=None, agent=None, span_id="c"),
        ),
        models=("large",),
        errors=(Error("llm large", "429", "t1", "a"), Error("run x", "429", "t1", None)),
    )
    drill = builders.session(
        [("hi", [builders.tool("refund")])],
        session_id="drill",
        agent_version="1.0",
        origin="drill",
        llm_calls=(builders.llm("small", cost_usd=1.0),),
        models=("small",),
    )
    return [two_models, two_agents, drill]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tools") / "planted.duckdb"
    with Store.open(file) as opened:
        update(opened)
        for table, rows in rows_of(planted(), 1).items():
            if rows:
                incoming = arrow_rows(rows, TABLES[table].arrow_types)
                opened.query(f"INSERT INTO derived.{table} BY NAME FROM incoming", incoming=incoming)
    return file


@pytest.fixture(scope="module")
def store(db: Path) -> Iterator[Store]:
    with Store.open(db, read_only=True) as opened:
        yield opened


def values(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(value for key, value in row.items() if key not in ("filters", "trend")) for row in rows]


# name, part, calls, failed, unknown outcomes, p50, p95
TOOLS = {
    "": [("refund", None, 4, 1, 1, 2.0, 3.0), ("look_up", None, 1, 0, 0, 0.5, 0.5)],
    "agent": [
        ("refund", "shop", 3, 1, 0, 2.0, 3.0),
        ("look_up", "shop", 1, 0, 0, 0.5, 0.5),
        ("refund", "desk", 1, 0, 1, None, None),
    ],
    "version": [
        ("refund", "1.0", 2, 1, 0, 1.0, 3.0),
        ("refund", "2.0", 2, 0, 1, 2.0, 2.0),
        ("look_up", "1.0", 1, 0, 0, 0.5, 0.5),
    ],
}
# name, part, calls, failed, input and output tokens, unknown tokens, cost, unknown costs, p50, p95
MODELS = {
    "": [
        ("large", None, 3, 1, 107, 23, 1, 4.5, 1, 3.0, 4.0),
        ("small", None, 2, 1, 10, 1, 0, 0.25, 0, 1.0, 5.0),
        (None, None, 1, 0, 1, 1, 0, None, 1, None, None),
    ],
    "agent": [
        ("large", "shop", 2, 1, 100, 20, 1, 4.0, 1, 2.0, 3.0),
        ("large", "desk", 1, 0, 7, 3, 0, 0.5, 0, 4.0, 4.0),
        ("small", "shop", 2, 1, 10, 1, 0, 0.25, 0, 1.0, 5.0),
        (None, None, 1, 0, 1, 1, 0, None, 1, None, None),
    ],
    "version": [
        ("large", "1.0", 1, 0, 100, 20, 0, 4.0, 0, 3.0, 3.0),
        ("large", "2.0", 2, 1, 7, 3, 1, 0.5, 1, 2.0, 4.0),
        ("small", "1.0", 2, 1, 10, 1, 0, 0.25, 0, 1.0, 5.0),
        (None, "2.0", 1, 0, 1, 1, 0, None, 1, None, None),
    ],
}


@pytest.mark.parametrize("by", ["", "agent", "version"])
def test_calls_are_counted_by_tool_and_by_model_within_a_session(store: Store, by: str) -> None:
    page = tools_page(store, {"by": by})
    assert values(page["tools"]) == TOOLS[by]
    assert values(page["models"]) == MODELS[by]
    assert page["left_out_origins"] == {"drill": 1}


@pytest.mark.parametrize(
    ("texts", "tools", "models"),
    [
        ({"version": "1.0"}, [("refund", 2), ("look_up", 1)], [("large", 1), ("small", 2)]),
        ({"agent": "desk"}, [("refund", 1)], [("large", 1)]),
        ({"since": "1970-01-02"}, [("refund", 2)], [("large", 2), (None, 1)]),
        ({"until": "1970-01-02"}, [("refund", 2), ("look_up", 1)], [("large", 1), ("small", 2)]),
        ({"origin": "drill"}, [("refund", 1)], [("small", 1)]),
        ({"origin": "any"}, [("refund", 5), ("look_up", 1)], [("large", 3), ("small", 3), (None, 1)]),
        ({"version": "3.0"}, [], []),
    ],
)
def test_a_filter_leaves_the_calls_that_it_names(
    store: Store, texts: dict[str, str], tools: list[Any], models: list[Any]
) -> None:
    page = tools_page(store, texts)
    assert [(row["name"], row["calls"]) for row in page["tools"]] == tools
    assert [(row["name"], row["calls"]) for row in page["models"]] == models


def test_the_sessions_that_view_is_confined_to_are_counted_alone(store: Store) -> None:
    page = tools_page(store, {}, ["two agents"])
    assert [(row["name"], row["calls"]) for row in page["tools"]] == [("refund", 2)]


def test_a_row_leads_to_its_sessions(store: Store) -> None:
    page = tools_page(store, {"by": "version", "since": "1970-01-01"})
    led = [
        (
            row["name"],
            row["part"],
            [one["session_id"] for one in sessions_page(store, row["filters"])["sessions"]],
        )
        for row in (*page["tools"], *page["models"])
        if row["filters"]
    ]
    assert led == [
        ("refund", "1.0", ["two models"]),
        ("refund", "2.0", ["two agents"]),
        ("look_up", "1.0", ["two models"]),
        ("large", "1.0", ["two models"]),
        ("large", "2.0", ["two agents"]),
        ("small", "1.0", ["two models"]),
    ]
    by_agent = tools_page(store, {"agent": "desk", "by": "agent"})["tools"]
    assert [row["filters"] for row in by_agent] == [
        {"origin": "production", "agent": "desk", "tool": "refund"}
    ]


@pytest.mark.parametrize("texts", [{"by": "size"}, {"origin": "none"}, {"since": "soon"}])
def test_a_value_that_cannot_be_used_is_refused(store: Store, texts: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"expected|soon"):
        tools_page(store, texts)


@pytest.fixture(scope="module")
def served(db: Path) -> Iterator[Served]:
    with serving(db) as one:
        yield one


def test_the_page_shows_the_numbers_and_its_links_are_served(served: Served) -> None:
    page = served.get("/tools?by=version")
    assert page.status == 200
    root = parsed(page.text)
    rows = [
        [text(cell).strip() for cell in row if name(cell) in ("td", "th")]
        for row in elements(root)
        if name(row) == "tr"
    ]
    assert rows == [
        ["Tool", "Version", "Calls", "Failed", "Unknown outcomes", "Latency p50", "p95", "Over time"],
        ["refund", "1.0", "2", "1", "0", "1.0 s", "3.0 s", "2 calls, 1 failed"],
        ["refund", "2.0", "2", "0", "1", "2.0 s", "2.0 s", "2 calls, 0 failed"],
        ["look_up", "1.0", "1", "0", "0", "500 ms", "500 ms", "1 call, 0 failed"],
        [
            *("Model", "Version", "Calls", "Failed", "Input tokens", "Output tokens", "Unknown tokens"),
            *("Cost", "Unknown costs", "Latency p50", "p95", "Over time"),
        ],
        ["large", "1.0", "1", "0", "100", "20", "0", "$4.00", "0", "3.0 s", "3.0 s", "1 call, 0 failed"],
        ["large", "2.0", "2", "1", "7", "3", "1", "$0.5", "1", "2.0 s", "4.0 s", "2 calls, 1 failed"],
        ["small", "1.0", "2", "1", "10", "1", "0", "$0.25", "0", "1.0 s", "5.0 s", "2 calls, 1 failed"],
        ["not recorded", "2.0", "1", "0", "1", "1", "0", "–", "1", "–", "–", "1 call, 0 failed"],
    ]
    assert [text(one) for one in find_all(root, aria_current="page")] == ["Tools"]
    links = [html.unescape(one) for one in re.findall(r'href="(/sessions\?[^"]+)"', page.text)]
    assert len(links) == 7  # six names, and the failed calls of a tool
    assert {served.get(link).status for link in links} == {200}
    assert served.get("/tools?by=size").status == 400
    assert "No call of a tool is recorded in these sessions." in served.get("/tools?version=3.0").text


def test_hostile_names_are_text(tmp_path: Path) -> None:
    store_session(tmp_path / "s.duckdb")
    with serving(tmp_path / "s.duckdb") as one:
        for by in ("", "agent", "version"):
            root = parsed(one.get(f"/tools?by={by}").text)
            assert dangers(root) == []
            assert text(root).count("<script>window.attacked=1</script>") >= 2
        assert dangers(parsed(one.get("/tools?agent=%22%3E%3Cscript%3E&version=%3Cb%3E").text)) == []


@pytest.mark.parametrize("metric", ["cost", "tokens", "latency"])
def test_over_time_each_model_has_one_line_of_its_calls_as_in_trend(store: Store, metric: str) -> None:
    by_model: dict[str | None, list[float]] = {}
    for session in planted()[:2]:
        for model in dict.fromkeys(call.model for call in session.llm_calls):
            calls = [call for call in session.llm_calls if call.model == model]
            answered = [call for call in calls if not call.unanswered]
            numbers: list[float | None] = {
                "cost": [call.cost_usd for call in answered],
                "tokens": [
                    None
                    if None in (one.input_tokens, one.output_tokens)
                    else one.input_tokens + one.output_tokens
                    for one in answered
                ],
                "latency": [call.latency_s for call in calls],
            }[metric]
            known = [one for one in numbers if one is not None]
            values = by_model.setdefault(model, [])
            if metric == "latency":
                values += [fmean(known)] if known else []
            elif len(known) == len(numbers):
                values.append(sum(known))
    assert {one.key: one.mean for one in trend(store, metric, "model").points} == {
        model: fmean(values) if values else None for model, values in by_model.items()
    }
    page = trends_page(store, {"series": "model", "since": "1970-01-01", "until": "1970-01-04"})
    column = {"cost": "cost_usd", "tokens": "tokens", "latency": "p95_s"}[metric]
    shown: dict[str, list[float]] = {}
    for row in page["rows"]:
        shown.setdefault(row["series"], []).extend([] if row[column] is None else [row[column]])
    assert {name: sorted(values) for name, values in shown.items()} == {
        model or "": sorted(values) for model, values in by_model.items()
    }
