"""A session records what made it: production, `spangrade run` in one of its four ways, or pytest."""

import json
import re
from pathlib import Path

import pytest
from command_line import run as spangrade
from origins import CONVERSATION, write_sessions_of_all_origins

import spangrade as sg
from spangrade.evaluator.agents import stored_run
from spangrade.evaluator.apps.server.pages.trends_page import trends_page
from spangrade.evaluator.reports.html.sessions_page import count_page, sessions_page
from spangrade.tracer.store import Store


@pytest.fixture
async def sessions_of_all_origins(tmp_path, monkeypatch):
    return await write_sessions_of_all_origins(tmp_path, monkeypatch)


def origins():
    with sg.open("spangrade.duckdb") as db:
        rows = list(
            db.sql("SELECT session_id, origin, origin_run FROM sessions ORDER BY started_at, session_id")
        )
    return [
        (
            re.sub(r"-[0-9a-f]{8}$", "", row["session_id"]),
            row["origin"],
            (row["origin_run"] or "").partition("@")[0],
        )
        for row in rows
    ]


ALL = [
    ("customer", "production", ""),
    ("marked", "test", ""),
    ("plain", "run", "plain"),
    ("talk", "simulated", "talk"),
    ("talk", "replay", "talk"),
    ("faulty", "drill", "faulty"),
    ("conversation", "test", ""),
]


@pytest.mark.exhaustive
async def test_a_session_has_the_origin_with_which_it_was_made(sessions_of_all_origins):
    assert origins() == ALL


async def test_sessions_of_an_earlier_version_get_their_origin_from_their_other_marks(
    sessions_of_all_origins,
):
    with sg.open("spangrade.duckdb") as db:
        held = next(
            row["session_id"] for row in db.sql("FROM sessions") if "conversation" in row["session_id"]
        )
    tested = stored_run.TestedSession(
        held, "test_it", stored_run.expectation_of("test_it", CONVERSATION), "passed", "", ()
    )
    stored_run.save_tests(sessions_of_all_origins, [tested], None, Path())
    with Store.open(sessions_of_all_origins) as store:
        tag = ',?"spangrade.origin=[a-z]+"'
        store.query(f"UPDATE spans SET attributes = regexp_replace(attributes::VARCHAR, '{tag}', '')")
    assert spangrade("doctor", "--derive-all").code == 0
    assert origins() == [
        (name, "production" if name == "marked" else origin, run) for name, origin, run in ALL
    ]


def listed(*options):
    """The origins of the sessions that the command lists, and what it says of the others."""
    done = spangrade("sessions", "--format", "json", *options)
    return [row["origin"] for row in json.loads("\n".join(done.out))], done.err


def on_the_start_page(**parameters):
    """The origins of the sessions on the page, whether it has a column for them, and its filters."""
    with sg.open("spangrade.duckdb").stored.reading() as store:
        page = sessions_page(store, parameters)
        assert count_page(store, parameters) == len(page["sessions"])
        return sorted(one["origin"] for one in page["sessions"]), "origin" in page["columns"], page["line"]


OTHERS = (
    "spangrade: production only, without other sessions (1 run, 1 simulated, 2 test, 1 drill, 1 replay): "
)


@pytest.mark.exhaustive
async def test_production_is_what_lists_trends_and_watch_take_unless_others_are_asked_for(
    sessions_of_all_origins,
):
    everything = sorted(origin for _, origin, _ in ALL)
    assert listed() == (["production"], [f"{OTHERS}--where origin:any takes all"])
    assert listed("--where", "origin:drill") == (["drill"], [])
    assert sorted(listed("--where", "origin:any")[0]) == everything
    assert on_the_start_page() == (["production"], False, "origin:production")
    assert on_the_start_page(origin="any") == (everything, True, "origin:any")
    assert on_the_start_page(q="origin:replay") == (["replay"], False, "origin:replay")
    assert on_the_start_page(q="environment:none") == ([], False, "environment:none origin:production")

    def counted(*options):
        done = spangrade("trend", "cost", "--format", "json", *options)
        return sum(
            point["sessions"] + point["unknown"] for point in json.loads("\n".join(done.out))["points"]
        )

    assert (counted(), counted("--where", "origin:test"), counted("--where", "origin:any")) == (1, 2, 7)
    with sg.open("spangrade.duckdb").stored.reading() as store:
        pages = [trends_page(store, {"since": "1970-01-01", **more}) for more in ({}, {"origin": "any"})]
        assert [sum(row["sessions"] for row in page["rows"]) for page in pages] == [1, 7]
        assert [sum(page["left_out_origins"].values()) for page in pages] == [6, 0]
    with sg.open("spangrade.duckdb") as db:
        assert [len(db.to_review(origin=origin)) for origin in ("production", "drill", "any")] == [1, 1, 7]
        assert len(db.grade(gates="cost<=1", select=sg.Selection(origin="run")).sessions) == 1
        assert len(db.grade(gates="cost<=1").sessions) == 7
        once = sg.WatchOptions(once=True)
        assert sum(db.watch(gates="cost<=1", options=once).verdicts.values()) == 1
    for command in (
        ("sessions",),
        ("trend", "cost"),
        ("label", "--by", "ann"),
        ("grade", "--metric", "cost<=1"),
        ("serve", "--only", "grade", "--metric", "cost<=1", "--once"),
        ("lint",),
        ("show", "plain"),
        ("compare", "plain", "talk"),
        ("audit", "--mine"),
        ("convert", "--output", "new.json"),
    ):
        done = spangrade(*command, "--where", "origin:staging")
        expected = "--where origin: expected one of production, run, simulated, test, drill, replay, any"
        assert (done.code, done.err) == (2, [f"spangrade: {expected}, found 'staging'"]), command


async def test_all_are_listed_as_long_as_there_is_no_session_of_production(sessions_of_all_origins):
    with sg.open("spangrade.duckdb") as db:
        db.delete("customer")
    everything = sorted(origin for _, origin, _ in ALL if origin != "production")
    origins, notes = listed()
    assert (sorted(origins), notes) == (everything, [])
    assert on_the_start_page() == (everything, True, "")
    assert spangrade("sessions").out[0].split()[-1] == "origin"
