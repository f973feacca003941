"""Limits on calls, by the verdict on a session: which may be made, how often, and after which others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from grading import grade_recorded
from made_once import new_database
from otlp_sessions import Call, Said, recorded_sessions, write_golden, write_sessions

from spangrade.evaluator.grading.verdict import exit_code


def verdict(*calls: Call, **rules: Any) -> tuple[int, str]:
    """Grade a session of some calls by rules: the exit code, and the reason of the verdict."""
    grade = grade_recorded(
        recorded_sessions([("s1", [Said("Hi", calls=calls)])]), {"user_inputs": ["Hi"], **rules}
    )
    return exit_code([grade.verdict]), grade.reason


LOOK, REFUND = Call("look_up", {"order_id": "A1"}), Call("refund", {"order_id": "A1"})
OTHER = Call("look_up", {"order_id": "A2"})
FAILED = LOOK._replace(error="no connection")
REQUESTED = {"only_requested": True}


@pytest.mark.parametrize(
    ("calls", "code"),
    [
        ((LOOK,), 0),
        ((LOOK, Call("search")), 0),  # which is not listed
        ((LOOK, Call("book")), 1),
        ((LOOK, LOOK), 1),  # beyond the one that is expected
        ((LOOK, Call("book", error="full")), 1),
        ((LOOK, Call("search", **REQUESTED)), 0),
        ((LOOK, Call("book", **REQUESTED)), 4),
    ],
)
def test_no_further_calls_of_some_tools(calls: tuple[Call, ...], code: int) -> None:
    expected = [{"tool_name": "look_up"}]
    rules = {"reference_tool_interactions": expected, "no_further_calls": ["book", "look_up"]}
    assert verdict(*calls, **rules)[0] == code


@pytest.mark.parametrize(
    "rule", [{"no_further_calls": True}, {"no_further_calls": ["book"]}, {"at_most": {"book": 0}}]
)
def test_a_call_that_failed_is_not_a_further_one_if_failed_calls_are_ignored(rule: dict[str, Any]) -> None:
    expected = {"reference_tool_interactions": [{"tool_name": "look_up"}], **rule}
    failed = Call("book", error="full")
    codes = [
        verdict(LOOK, failed, **expected)[0],
        verdict(LOOK, failed, **expected, failed_calls="ignore")[0],
        verdict(LOOK, Call("book"), **expected, failed_calls="ignore")[0],
    ]
    assert codes == [1, 0, 1]


def test_a_forbidden_call_that_failed_counts_unless_it_is_ignored_there() -> None:
    failed = Call("book", error="full")
    ignored = {"tools": ["book"], "failed_calls": "ignore"}
    codes = [
        verdict(failed, forbidden_tools=["book"])[0],
        verdict(failed, forbidden_tools=["book"], failed_calls="ignore")[0],
        verdict(failed, forbidden_tools=ignored)[0],
        verdict(Call("book"), forbidden_tools=ignored)[0],
    ]
    assert codes == [1, 1, 0, 1]


@pytest.mark.parametrize(
    ("calls", "verdict_and_reason"),
    [
        ((), (0, "")),
        ((LOOK, OTHER), (0, "")),
        (
            (LOOK, FAILED, OTHER),
            (
                1,
                (  # it repeats the first
                    'at_most: expected at most look_up 2; beyond that: look_up{"order_id":"A1"} (failed)'
                ),
            ),
        ),
        (
            (LOOK, OTHER, Call("look_up", {"order_id": "A3"}, **REQUESTED)),
            (
                4,
                "at_most: whether look_up was executed is not recorded, only that it was requested",
            ),
        ),
        ((LOOK, OTHER._replace(**REQUESTED)), (0, "")),
    ],
)
def test_a_tool_is_called_at_most_so_often(
    calls: tuple[Call, ...], verdict_and_reason: tuple[int, str]
) -> None:
    assert verdict(*calls, at_most={"look_up": 2}) == verdict_and_reason


UNKNOWN = "before: whether look_up was executed is not recorded, only that it was requested"
EARLY = "before: expected look_up before refund; too early: "


@pytest.mark.parametrize(
    ("calls", "verdict_and_reason"),
    [
        ((), (0, "")),
        ((LOOK,), (0, "")),
        ((LOOK, REFUND), (0, "")),
        ((OTHER, REFUND, REFUND), (0, "")),  # one look-up serves both
        ((REFUND,), (1, EARLY + 'refund{"order_id":"A1"}')),
        ((REFUND, LOOK, REFUND), (1, EARLY + 'refund{"order_id":"A1"}')),
        ((FAILED, REFUND), (1, EARLY + 'refund{"order_id":"A1"}')),
        ((FAILED, LOOK, REFUND), (0, "")),
        ((LOOK._replace(at=(1, 4)), REFUND._replace(at=(3, 5))), (1, EARLY + 'refund{"order_id":"A1"}')),
        ((LOOK._replace(at=(1, 3)), REFUND._replace(at=(3, 5))), (0, "")),
        (
            (REFUND._replace(error="declined"),),
            (1, EARLY + 'refund{"order_id":"A1"} (failed: declined)'),
        ),
        ((REFUND._replace(**REQUESTED),), (4, UNKNOWN.replace("whether look_up", "whether refund"))),
        ((LOOK, REFUND._replace(**REQUESTED)), (0, "")),
    ],
)
def test_a_call_needs_an_earlier_one(calls: tuple[Call, ...], verdict_and_reason: tuple[int, str]) -> None:
    assert verdict(*calls, before=[["look_up", "refund"]]) == verdict_and_reason


def test_a_look_up_that_was_only_requested_may_have_come_before() -> None:
    """The model's call that requests it ends after the refund here, so it cannot have; then it could."""
    look_up = LOOK._replace(**REQUESTED)
    late = REFUND._replace(at=(100, 101))
    assert [verdict(look_up, one, before=[["look_up", "refund"]])[0] for one in (REFUND, late)] == [1, 4]


@pytest.mark.parametrize(
    ("calls", "code"),
    [
        ((LOOK, REFUND), 0),
        ((OTHER, REFUND), 1),
        ((OTHER, LOOK, REFUND, REFUND), 0),
        ((Call("look_up"), REFUND), 1),
        ((Call("look_up"), Call("refund")), 1),  # neither has the argument
        ((Call("look_up", {"order_id": 1}), Call("refund", {"order_id": 1.0})), 0),
    ],
)
def test_a_call_needs_an_earlier_one_with_the_same_arguments(calls: tuple[Call, ...], code: int) -> None:
    rule = {"first": "look_up", "then": "refund", "same": ["order_id"]}
    done = verdict(*calls, before=[rule])
    assert done[0] == code
    words = "before: expected look_up before refund with the same order_id; too early: refund"
    assert done[1].startswith(words) is (code == 1)


def test_a_refund_that_failed_is_not_too_early_if_failed_calls_are_ignored() -> None:
    failed = REFUND._replace(error="declined")
    assert verdict(failed, before=[["look_up", "refund"]], failed_calls="ignore") == (0, "")


def test_the_command_gives_the_same_verdict_and_reason(spangrade: Spangrade, tmp_path: Path) -> None:
    golden, spans = tmp_path / "golden.json", tmp_path / "spans.jsonl"
    write_golden(golden, {"id": "q1", "user_inputs": ["Hi"], "before": [["look_up", "refund"]]})
    write_sessions(spans, [("s1", [Said("Hi", calls=[REFUND])])])
    db, out = new_database(tmp_path / "s.duckdb"), tmp_path / "out"
    command = ("grade", golden, "--spans", spans, "--db", db, "--out", out, "--reports", "json")
    code = spangrade(*command).code
    (line,) = (out / "sessions.jsonl").read_text().splitlines()
    assert (code, json.loads(line)["reason"]) == verdict(REFUND, before=[["look_up", "refund"]])


BOOKED = LOOK._replace(result={"status": "sent"})


@pytest.mark.parametrize(
    ("rule", "calls", "code"),
    [
        ("never_after", (LOOK, REFUND), 1),
        ("never_after", (REFUND, LOOK), 0),
        ("never_after", (LOOK, REFUND._replace(**REQUESTED)), 4),
        ("never_after", (LOOK._replace(**REQUESTED), REFUND._replace(**REQUESTED)), 4),
        ("never_after", (OTHER._replace(**REQUESTED), REFUND), 0),  # of another order
        ("followed_by", (LOOK, REFUND), 0),
        ("followed_by", (LOOK,), 1),
        ("followed_by", (LOOK._replace(**REQUESTED),), 4),
        ("followed_by", (OTHER._replace(**REQUESTED), REFUND), 4),
        ("followed_by", (LOOK, REFUND._replace(**REQUESTED)), 4),
        ("reply_has", (BOOKED,), 1),
        ("reply_has", (BOOKED._replace(**REQUESTED),), 4),
    ],
)
def test_whether_a_call_that_was_only_requested_ran_is_unknown_to_each_rule(
    rule: str, calls: tuple[Call, ...], code: int
) -> None:
    pair = {"first": "look_up", "then": "refund", "same": ["order_id"]}
    asked = {"tool": "look_up", "value": "status"} if rule == "reply_has" else pair
    found = verdict(*calls, **{rule: [asked]})
    assert (found[0], "only that it was requested" in found[1]) == (code, code == 4)


def test_a_call_of_a_later_turn_may_be_after_one_that_was_requested() -> None:
    turns = [Said("Hi", calls=(LOOK._replace(**REQUESTED),)), Said("Go on", calls=(REFUND,))]
    question = {"user_inputs": ["Hi", "Go on"], "never_after": [["look_up", "refund"]]}
    grade = grade_recorded(recorded_sessions([("s1", turns)]), question)
    assert grade.reason == (
        "never_after: whether look_up was executed is not recorded, only that it was requested"
    )
