"""Stored sessions into golden questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import session, tool
from command_line import Spangrade
from paths import HISTORY, SAMPLE

from spangrade import InputError
from spangrade.evaluator.review.session_to_golden import question_of

UUID = "571ca708-c6f5-4abd-98f0-f508bb954628"


def asked(arguments: Any, *, wildcards: bool) -> tuple[Any, list[str]]:
    """The arguments that a question expects of the one call of a session, and what looks generated in it."""
    made = question_of(session([("hi", [tool("t", arguments)])]), "q", wildcards=wildcards)
    (call,) = made.question["reference_data"]["reference_tool_interactions"]
    at = "reference_tool_interactions[0].input_arguments"
    return call.get("input_arguments"), [where.removeprefix(at) for where in made.volatile]


def test_a_session_passes_the_question_that_it_becomes(spangrade: Spangrade, tmp_path: Path) -> None:
    db, golden = tmp_path / "s.duckdb", tmp_path / "golden.json"
    spangrade("import", SAMPLE / "spans.otlp.jsonl", "--db", db)
    listed = json.loads("\n".join(spangrade("sessions", "--db", db, "--format", "json").out))
    for row in listed:
        made = spangrade("convert", row["session_id"], "--db", db, "--output", golden)
        assert (made.code, made.err) == (0, [])
    questions = json.loads(golden.read_bytes())["golden_questions"]
    assert [question["id"] for question in questions] == [row["question_id"] for row in listed]
    assert {len(question["reference_data"]) for question in questions} == {4}
    assert spangrade("grade", golden, "--db", db).out[0] == "4 sessions: 4 passed"


def test_a_question_is_made_of_what_the_session_did() -> None:
    done = session(
        [("hi", [tool("look_up", {"a": 1})]), ("bye", [tool("look_up")])],
        steps=("shop", "look_up", "returns", "look_up"),
        agents=("shop", "returns"),
        state_variables={"mood": "good"},
    )
    assert question_of(done, "q1") == (
        {
            "id": "q1",
            "user_inputs": ["hi", "bye"],
            "agents_evaluated": ["shop", "returns"],
            "metadata": {"source_session": "s1"},
            "reference_data": {
                "reference_tool_interactions": [
                    {"tool_name": "look_up", "input_arguments": {"a": 1}},
                    {"tool_name": "look_up"},
                ],
                "reference_trajectory": ["shop", "returns"],
                "reference_state_variables": {"mood": "good"},
                "reference_response": "ok",
            },
        },
        [],
    )


@pytest.mark.parametrize(
    "value",
    [
        UUID,
        f"order-{UUID.upper()}",
        "2026-01-12T01:45:36.379644",
        "2026-01-12 01:45",
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "1768182322",
    ],
)
def test_a_text_that_looks_generated_becomes_any_text(value: str) -> None:
    assert asked({"id": value, "n": 1}, wildcards=True) == ({"id": "*", "n": 1}, [".id"])
    assert asked({"id": value, "n": 1}, wildcards=False) == ({"id": value, "n": 1}, [".id"])


@pytest.mark.parametrize("value", [1768182322, 1768182322401, 1768182322.4058237, 1768182322401721088])
def test_a_number_that_looks_generated_leaves_its_key_free(value: float) -> None:
    assert asked({"at": value}, wildcards=True) == ({"at": None}, [".at"])
    assert asked({"at": [value, 1]}, wildcards=True) == ({"at": None}, [".at[0]"])


@pytest.mark.parametrize(
    "value",
    [
        *("ORD-0000001", "2024-07-29", "9-12", "+1-702-555-1212", "soil-456", "decade", "a" * 40),
        *(25.98, 428765091, float("nan"), True, None, "99999999999999999999", f"{'long text ' * 20}{UUID}"),
    ],
)
def test_what_a_user_may_have_said_is_kept(value: Any) -> None:
    (kept, volatile) = asked({"deep": [{"v": value}]}, wildcards=True)
    assert (repr(kept), volatile) == (repr({"deep": [{"v": value}]}), [])


def test_nested_values_are_freed_one_by_one() -> None:
    found = asked({"order": {"id": UUID, "items": [{"id": UUID, "n": 2}]}}, wildcards=True)
    assert found == (
        {"order": {"id": "*", "items": [{"id": "*", "n": 2}]}},
        [".order.id", ".order.items[0].id"],
    )


def test_a_state_variable_that_looks_generated_is_left_out() -> None:
    done = session(state_variables={"timer_start": 1768182322.4, "mood": "good", "run": {"id": UUID}})
    kept = {
        wildcards: question_of(done, "q", wildcards=wildcards).question["reference_data"][
            "reference_state_variables"
        ]
        for wildcards in (False, True)
    }
    assert kept == {False: done.state_variables, True: {"mood": "good"}}
    assert question_of(done, "q").volatile == [
        "reference_state_variables.timer_start",
        "reference_state_variables.run.id",
    ]


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (session([(None, ()), ("hi", ())]), "the user's message in turn 1 is not recorded"),
        (session([]), "the user's message in any turn is not recorded"),
        (session(agents=None), "which agents took part is not recorded"),
    ],
)
def test_a_session_that_does_not_tell_enough_is_refused(done: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        question_of(done, "q")


def test_a_question_is_not_added_twice_under_one_id(spangrade: Spangrade, tmp_path: Path) -> None:
    db, out = tmp_path / "s.duckdb", tmp_path / "golden.json"
    history = HISTORY / "2.13.0"
    spangrade(
        "convert_adk_history_to_dataset.py",
        "--agent-dir",
        history,
        "--db",
        db,
        "--output",
        tmp_path / "r.csv",
    )
    ids = [row["session_id"] for row in json.loads("\n".join(listed(spangrade, db)))]
    done = spangrade("convert", ids[0][:24], "--db", db, "--output", out, "--id", "q1")
    assert (done.code, done.err) == (0, [])
    again = spangrade("convert", ids[0], "--db", db, "--output", out, "--id", "q1")
    said = f'spangrade: {out}: id "q1": another question has it'
    assert again == (2, [f"0 questions added to {out}; 1 left out"], [said])


def listed(spangrade: Spangrade, db: Path) -> list[str]:
    return spangrade("sessions", "--db", db, "--format", "json").out


def test_the_places_that_look_generated_are_said(spangrade: Spangrade, tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    (tmp_path / "spans.json").write_text(json.dumps(spans_of({"id": UUID, "n": 1})))
    spangrade("import", tmp_path / "spans.json", "--db", db)
    command = ("convert", "s1", "--db", db)
    plain = spangrade(*command, "--output", tmp_path / "plain.json")
    freed = spangrade(*command, "--output", tmp_path / "freed.json", "--wildcards")
    where = "spangrade: reference_tool_interactions[0].input_arguments.id: looks generated"
    assert (plain.code, plain.err) == (0, [f"{where}; --wildcards accepts any value"])
    assert (freed.code, freed.err) == (0, [f"{where}; any value is accepted"])


def spans_of(arguments: Any) -> list[dict[str, Any]]:
    """A turn in which an agent calls a tool as ADK's debug API has it."""
    times = {"trace_id": 1, "start_time": 1, "end_time": 2}
    turn = {"gen_ai.conversation.id": "s1", "gen_ai.agent.name": "shop", "spangrade.turn.input": "hi"}
    call = {"gen_ai.tool.name": "t", "gen_ai.tool.call.arguments": json.dumps(arguments)}
    return [
        {"name": "invoke_agent shop", "span_id": 1, "parent_span_id": None, **times, "attributes": turn},
        {"name": "execute_tool t", "span_id": 2, "parent_span_id": 1, **times, "attributes": call},
    ]
