"""The first page: what happened since a time against the period before, and why sessions failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from hard_sessions import store_session
from made_once import made_once
from otlp_sessions import START_NS, Call, Said, write_sessions
from pages import dangers, elements, find, find_all, name, parsed, parsed_part, text
from paths import FIXTURES
from serving import Served, serving

import spangrade as package
from spangrade import InputError, Selection
from spangrade.evaluator.apps.server.pages.overview_page import causes_part, overview_page
from spangrade.evaluator.reports.html.rendering import count, seconds, usd
from spangrade.evaluator.statistics.intervals import rates_interval
from spangrade.tracer.store import Store

DAY_NS = 86_400 * 10**9
WORKS = [Said("Where is it?", calls=[Call("look_up", {"id": 1})])]
KNOWN = [Said("Where is it?", calls=[Call("look_up", {"id": 1}, error="no such order")])]
NEW = [Said("Refund it", calls=[Call("refund", {"id": 1}, error="out of money")])]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days of ten sessions of which two fail, and two days with new failures."""
    folder = tmp_path_factory.mktemp("overview")
    opened = package.open(folder / "s.duckdb")
    before = [(f"before {number}", KNOWN if number < 2 else WORKS) for number in range(10)]
    now = [(f"now {number}", NEW if number < 5 else KNOWN if number < 7 else WORKS) for number in range(10)]
    files = [
        write_sessions(folder / "before.jsonl", before, version="1.0"),
        write_sessions(folder / "now.jsonl", now, start_ns=START_NS + 2 * DAY_NS, version="2.0"),
    ]
    opened.import_files(files)
    opened.grade(gates="tool_success_rate>=0.9")
    for session in ("now 0", "now 9"):
        opened.label(session, "fail", by="ann")
    return folder / "s.duckdb"


@pytest.fixture(scope="module")
def served(db: Path) -> Iterator[Served]:
    with serving(db) as one:
        yield one


def test_it_holds_the_last_two_days_against_the_period_before(db: Path) -> None:
    with Store.open(db, read_only=True) as store:
        page = overview_page(store, {})
    now, before = page["now"], page["before"]
    assert [(one["sessions"], one["passed"], one["failed"]) for one in (now, before)] == [
        (10, 3, 7),
        (10, 8, 2),
    ]
    assert (now["unlabelled"], now["unlabelled_failures"]) == (8, 6)
    difference = page["difference"]
    assert (difference.estimate, difference.word) == (pytest.approx(-0.5), "fewer")
    assert (difference.low, difference.high) == rates_interval((8, 10), (3, 10))
    assert page["filters"] == {"origin": "production", "since": "2026-01-02"}


def test_new_causes_are_first_each_with_three_sessions(db: Path) -> None:
    with Store.open(db, read_only=True) as store:
        causes = causes_part(store, {})["causes"]
    found = [(one.is_new, len(one.cluster.sessions), len(one.examples)) for one in causes]
    assert found == [(True, 5, 3), (False, 2, 2)]
    assert "refund" in causes[0].cluster.what
    assert set(causes[1].examples) == {"now 5", "now 6"}


def test_a_cause_that_grows_is_before_a_new_one_of_a_session(tmp_path: Path) -> None:
    opened = package.open(tmp_path / "s.duckdb")
    before = [(f"before {number}", KNOWN if number < 2 else WORKS) for number in range(10)]
    now = [(f"now {number}", NEW if number < 1 else KNOWN if number < 7 else WORKS) for number in range(10)]
    files = [
        write_sessions(tmp_path / "before.jsonl", before),
        write_sessions(tmp_path / "now.jsonl", now, start_ns=START_NS + 2 * DAY_NS),
    ]
    opened.import_files(files)
    opened.grade(gates="tool_success_rate>=0.9")
    with Store.open(tmp_path / "s.duckdb", read_only=True) as store:
        causes = causes_part(store, {})["causes"]
    assert [(one.is_new, len(one.cluster.sessions)) for one in causes] == [(False, 6), (False, 1)]


def test_a_cause_is_the_set_of_tools_with_the_types_of_their_errors_at_every_door(
    tmp_path: Path, spangrade: Spangrade
) -> None:
    """Neither the order of the tools, how often they fail, nor what an error says of values is a cause."""
    calls = {
        "one": [
            Call("look_up", {"id": 1}, error="TimeoutError: after 3 s"),
            Call("pay", error="Declined: a"),
        ],
        "two": [
            Call("pay", error="Declined: b"),
            *[Call("look_up", {"id": 2}, error="TimeoutError: 4 s")] * 2,
        ],
        "three": [Call("look_up", {"id": 3}, error="NotFound: 3"), Call("pay", error="Declined: c")],
    }
    before = [("old", [Said("Pay", calls=calls["three"])]), *((f"fine {n}", WORKS) for n in range(3))]
    now = [(name, [Said("Pay", calls=each)]) for name, each in calls.items()]
    files = [
        write_sessions(tmp_path / "before.jsonl", before),
        write_sessions(tmp_path / "now.jsonl", now, start_ns=START_NS + 2 * DAY_NS),
    ]
    opened = package.open(tmp_path / "s.duckdb")
    opened.import_files(files)
    opened.grade(gates="tool_success_rate>=0.9", name="run")
    expected = [{"one", "two"}, {"three"}]
    with Store.open(opened.path, read_only=True) as store:
        causes = causes_part(store, {})["causes"]
    assert [{one.session_id for one in each.cluster.sessions} for each in causes] == expected
    select = Selection(since="2026-01-02", until="2026-01-04")
    found = opened.explain(select=select)
    assert [{one.session_id for one in each.sessions} for each in found] == expected
    done = spangrade("show", "--since", "2026-01-02", "--db", opened.path, "--format", "json")
    shown = json.loads("\n".join(done.out))["failures"]
    assert [set(one["sessions"]) for one in shown] == expected
    of_run = [{one.session_id for one in each.sessions} for each in opened.explain("run")]
    assert sorted(map(len, of_run)) == [2, 2]
    assert {"three", "old"} in of_run


def test_what_grew_is_explained_first_against_the_time_before(tmp_path: Path) -> None:
    old = [(f"old {n}", KNOWN if n < 4 else WORKS) for n in range(10)]
    new = [(f"now {n}", KNOWN if n < 4 else NEW if n < 7 else WORKS) for n in range(10)]
    files = [
        write_sessions(tmp_path / "old.jsonl", old),
        write_sessions(tmp_path / "new.jsonl", new, start_ns=START_NS + 2 * DAY_NS),
    ]
    opened = package.open(tmp_path / "s.duckdb")
    opened.import_files(files)
    opened.grade(gates="tool_success_rate>=0.9")

    def sizes(select: Selection | None) -> list[int]:
        return [len(one.sessions) for one in opened.explain(select=select)]

    assert sizes(Selection(since="2026-01-02", until="2026-01-04")) == [3, 4]
    assert sizes(Selection(until="2026-01-04")) == [8, 3]


@pytest.mark.parametrize(
    ("texts", "sessions"),
    [({"version": "1.0"}, 10), ({"agent": "shop", "since": "2025-12-31"}, 20), ({"service": "x"}, None)],
)
def test_the_header_chooses_the_sessions(db: Path, texts: dict[str, str], sessions: int | None) -> None:
    with Store.open(db, read_only=True) as store:
        page = overview_page(store, texts)
    assert (page["now"] and page["now"]["sessions"]) == sessions


@pytest.mark.parametrize(
    "texts", [{"origin": "none"}, {"since": "soon"}, {"since": "2026-01-03", "until": "2026-01-02"}]
)
def test_a_value_that_cannot_be_used_is_refused(db: Path, texts: dict[str, str]) -> None:
    with Store.open(db, read_only=True) as store, pytest.raises(InputError, match=r"expected|soon"):
        overview_page(store, texts)


def test_the_sentence_is_first_and_its_numbers_lead_to_the_list(served: Served) -> None:
    root = parsed(served.get("/").text)
    assert text(find_all(root, class_="lead")[0]).split(".")[0].startswith("3 passed: 30")
    (heading,) = [one for one in elements(root) if name(one) == "h1"]
    assert text(heading) == "7 of 10 sessions failed since Friday 02 January 2026 UTC"
    (failed,) = [one.get("href") for one in elements(root) if text(one) == "Failed ones"]
    page = parsed(served.get(str(failed)).text)
    assert len([row for row in elements(page) if row.get("data-session")]) == 7
    kept = [str(one.get("href")) for one in elements(page) if name(one) == "a" and text(one) == "Over time"]
    assert kept == ["/trends?origin=production&since=2026-01-02"]


def test_an_empty_database_says_how_to_fill_it(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb"):
        pass
    with serving(tmp_path / "s.duckdb") as one:
        assert "spangrade import FILE" in one.get("/").text
        assert one.get("/overview/causes").status == 200


def make(db: Path) -> None:
    opened = package.open(db)
    opened.import_files(sorted(FIXTURES.rglob("*.otlp.jsonl")))
    opened.grade(gates="cost<=1", name="before")
    opened.grade(gates=["tool_success_rate>=0.9", "cost<=0.001"], name="after")


@pytest.mark.exhaustive
def test_the_numbers_of_all_recordings_are_those_of_the_commands(spangrade: Spangrade) -> None:
    db = made_once("recordings_graded_twice", make)
    since = ("--where", "started_at >= '2025-01-01'")

    def printed(*command: str) -> Any:
        return json.loads("\n".join(spangrade(*command, "--db", db, "--format", "json").out))

    sessions = printed("sessions", "--limit", "1000", *since)
    causes = printed("show", *since)["failures"]
    with serving(db) as served:
        root = parsed(served.get("/overview?since=2025-01-01").text)
        part = parsed_part(served.get("/overview/causes?since=2025-01-01").text)
    cells = {
        text(row[0]): text(row[1])
        for row in elements(find(root, class_="numbers"))
        if name(row) == "tr" and len(row) == 3
    }
    verdicts = [str(one["verdict"]) for one in sessions]
    costs = [float(str(one["cost_usd"])) for one in sessions if one["cost_usd"] is not None]
    took = sorted(float(str(one["total_s"])) for one in sessions if one["total_s"] is not None)
    assert len(verdicts) > 100
    assert (cells["Sessions"], cells["Passed"]) == (count(len(verdicts)), count(verdicts.count("passed")))
    assert cells["Failed"] == count(verdicts.count("failed"))
    assert cells["Inconclusive"] == count(verdicts.count("inconclusive"))
    assert cells["Cost"] == usd(sum(costs))
    assert cells["Unknown costs"] == count(len(sessions) - len(costs))
    assert cells["Latency p50"] == seconds(took[(len(took) + 1) // 2 - 1])
    shown = [text(one)[:190] for one in find_all(part, class_="cause")]  # of long ones the beginning
    assert sorted(shown) == sorted(str(one["what"])[:190] for one in causes)
    numbers = sorted(int(text(one).split()[0]) for one in find_all(part, class_="nowrap"))
    assert numbers == sorted(len(list(one["sessions"])) for one in causes)  # type: ignore[call-overload]


def test_what_was_recorded_is_only_text(tmp_path: Path) -> None:
    store_session(tmp_path / "s.duckdb")
    package.open(tmp_path / "s.duckdb").grade(gates="tool_success_rate>=1")
    with serving(tmp_path / "s.duckdb") as one:
        assert dangers(parsed(one.get("/").text)) == []
        part = parsed_part(one.get("/overview/causes").text)
        assert dangers(part) == []
        assert find_all(part, class_="cause")
        address = "/overview?agent=%22%3E%3Cscript%3E&version=%3Cb%3E&service=%27"
        assert dangers(parsed(one.get(address).text)) == []
