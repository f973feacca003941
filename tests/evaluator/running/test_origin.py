"""A session records what made it: production, `spangrade run` in one of its four ways, or pytest."""

import json
import re
import sys
import textwrap
from pathlib import Path

import pytest
from command_line import run as spangrade
from gemini_standin import gemini_standin

import spangrade as sg
from spangrade.evaluator.conversation_runner import ConversationRunner
from spangrade.evaluator.testing import stored_run
from spangrade.evaluator.turn import AgentTurn, UserTurn
from spangrade.evaluator.view.sessions_page import count_page, sessions_page
from spangrade.evaluator.view.trends_page import trends_page
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

AGENT = """
    import spangrade

    @spangrade.tool
    def look_up(order):
        return {"order": order}

    def answer(text, history):
        with spangrade.agent("shop"):
            try:
                look_up("A-1001")
            except Exception:
                return "Not now."
            return "It is on its way."
"""
CONVERSATION = [UserTurn("Where is A-1001?"), AgentTurn("It is on its way.")]
SCENARIO = {"starting_prompt": "Where is A-1001?", "plan": [], "facts": {}, "ends_when": {"max_turns": 1}}
FAULT = {"tool": "look_up", "call": 9, "kind": "fails"}  # a call that the agent does not make


def ask(name, question, *options):
    Path("golden.json").write_text(
        json.dumps(
            {
                "golden_questions": [
                    {"id": name, "agents_evaluated": ["shop"], "reference_data": {}, **question}
                ]
            }
        )
    )
    done = spangrade("run", "shop_agent.py:answer", "golden.json", "--name", name, *options)
    assert done.code in (0, 4), done.err


async def hold_a_test():
    await ConversationRunner(lambda text: "It is on its way.", CONVERSATION, store="spangrade.duckdb").run()


@pytest.fixture
async def sessions_of_all_origins(tmp_path, monkeypatch):
    """A database with a session of each origin, and an imported one that a tag marks."""
    (tmp_path / "shop_agent.py").write_text(textwrap.dedent(AGENT))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("SPANGRADE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("GEMINI_API_KEY", "key")
    with gemini_standin() as standin:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", standin.url)
        user = ("--user-model", "gemini/gemini-2.5-flash")
        ask("plain", {"user_inputs": ["Where is A-1001?"]})
        ask("talk", {"scenario": SCENARIO}, *user)
        ask("talk", {"scenario": SCENARIO}, *user, "--replay", "talk")
        ask("faulty", {"scenario": {**SCENARIO, "faults": [FAULT]}}, *user)
    await hold_a_test()
    with Store.open("spangrade.duckdb") as store:
        for name, tags in (("customer", []), ("marked", ["nightly", "spangrade.origin=test"])):
            store.add(span_of(name, tags))
    return Path("spangrade.duckdb")


def span_of(session, tags):
    attributes = {"gen_ai.conversation.id": session, "gen_ai.operation.name": "invoke_agent"}
    more = {"gen_ai.agent.name": "shop", "spangrade.tags": tags}
    yield Span(
        session.encode().hex().ljust(32, "0"),
        session.encode().hex()[:16].ljust(16, "0"),
        None,
        "invoke_agent shop",
        "INTERNAL",
        1_000_000_000,
        2_000_000_000,
        attributes={**attributes, **more},
    )


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
    assert spangrade("derive", "--all").code == 0
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


async def test_production_is_what_lists_trends_and_watch_take_unless_others_are_asked_for(
    sessions_of_all_origins,
):
    everything = sorted(origin for _, origin, _ in ALL)
    assert listed() == (["production"], [f"{OTHERS}--origin any takes all"])
    assert listed("--origin", "drill") == (["drill"], [])
    assert sorted(listed("--origin", "any")[0]) == everything
    assert on_the_start_page() == (["production"], False, "origin:production")
    assert on_the_start_page(origin="any") == (everything, True, "origin:any")
    assert on_the_start_page(q="origin:replay") == (["replay"], False, "origin:replay")
    assert on_the_start_page(q="environment:none") == ([], False, "environment:none origin:production")

    def counted(*options):
        done = spangrade("trend", "cost", "--format", "json", *options)
        return sum(
            point["sessions"] + point["unknown"] for point in json.loads("\n".join(done.out))["points"]
        )

    assert (counted(), counted("--origin", "test"), counted("--origin", "any")) == (1, 2, 7)
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
    done = spangrade("trend", "cost", "--origin", "staging")
    assert done.code == 2


async def test_all_are_listed_as_long_as_there_is_no_session_of_production(sessions_of_all_origins):
    with sg.open("spangrade.duckdb") as db:
        db.delete("customer")
    everything = sorted(origin for _, origin, _ in ALL if origin != "production")
    origins, notes = listed()
    assert (sorted(origins), notes) == (everything, [])
    assert on_the_start_page() == (everything, True, "")
    assert spangrade("sessions").out[0].split()[-1] == "origin"
