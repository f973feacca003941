"""Golden questions from many sessions: what is merged, and what is learned from how many."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from builders import session, tool
from command_line import Spangrade
from otlp_sessions import Call, Said, write_sessions

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.grading.match_questions import QuestionIndex
from spangrade.evaluator.metrics import Score
from spangrade.evaluator.metrics.tools import tool_usage_accuracy, tools
from spangrade.evaluator.reports.html.alignment import alignment
from spangrade.evaluator.review.mining.questions import mine
from spangrade.evaluator.session import Session, ToolInteraction


def order(number: int, *others: ToolInteraction, **changes: Any) -> Session:
    """A session that looks an order up and cancels what the result has."""
    item = f"IT-{number * 7}"
    found = tool("look_up", {"order": f"ORD-{number}"}, output={"items": [{"id": item}]}, output_known=True)
    cancel = tool("cancel", {"item": item, "nonce": f"n{number}", "why": "user"}, start_ns=1)
    made = session([(f"Cancel my order ORD-{number} now", [found, cancel, *others])], **changes)
    return replace(made, session_id=f"s{number}")


def mined(*sessions: Session, **options: bool) -> list[dict[str, Any]]:
    return mine(sessions, **options).questions


def exact(done: Session, question: dict[str, Any]) -> float:
    outcome = tools.function(done, GoldenQuestion.model_validate(question), by="exact")
    assert isinstance(outcome, Score)
    return outcome.value


def test_what_varies_becomes_a_reference_or_a_wildcard() -> None:
    (question,) = mined(order(1), order(2), order(3))
    assert question == {
        "id": "cancel-my-order-now-1",
        "user_inputs": ["Cancel my order {value1} now"],
        "user_values": ["value1"],
        "agents_evaluated": ["shop"],
        "reviewed": False,
        "metadata": {
            "source_sessions": ["s1", "s2", "s3"],
            "learned": {
                "sessions": 3,
                "rules": [
                    {"where": where, "rule": rule, "sessions": 3}
                    for where, rule in (
                        ("reference_tool_interactions", "these tools"),
                        ("reference_tool_interactions[0].input_arguments.order", "the user's value1"),
                        (
                            "reference_tool_interactions[1].input_arguments.item",
                            "from the result look_up#/items/0/id",
                        ),
                        ("reference_tool_interactions[1].input_arguments.nonce", "any text"),
                        ("reference_tool_interactions[1].input_arguments.why", "always the same"),
                        ("reference_trajectory", "always the same"),
                        ("reference_response", "always the same"),
                    )
                ],
            },
        },
        "reference_data": {
            "reference_tool_interactions": [
                {"tool_name": "look_up", "input_arguments": {"order": {"$user": "value1"}}},
                {
                    "tool_name": "cancel",
                    "input_arguments": {
                        "item": {"$result": "look_up#/items/0/id"},
                        "nonce": "*",
                        "why": "user",
                    },
                },
            ],
            "reference_trajectory": ["shop"],
            "reference_response": "ok",
        },
    }
    assert exact(order(9), question) == 1
    wrong = [call._replace(input_arguments={"order": "ORD-1"}) for call in order(9).tool_interactions[:1]]
    assert (
        exact(replace(order(9), tool_interactions=(*wrong, *order(9).tool_interactions[1:])), question) == 0
    )


def test_without_dedupe_only_equal_texts_are_one_question() -> None:
    assert [one["user_inputs"] for one in mined(order(1), order(2), order(1), dedupe=False)] == [
        ["Cancel my order ORD-1 now"],
        ["Cancel my order ORD-2 now"],
    ]


def test_other_tools_are_an_alternative() -> None:
    (question,) = mined(order(1), order(2), order(3, tool("notify", {"mode": "sms"})))
    reference = question["reference_data"]
    assert [call["tool_name"] for call in reference["reference_tool_interactions"]] == ["look_up", "cancel"]
    (other,) = reference["reference_tool_alternatives"]
    assert [call["tool_name"] for call in other] == ["look_up", "cancel", "notify"]
    counts = [r["sessions"] for r in question["metadata"]["learned"]["rules"] if r["rule"] == "these tools"]
    assert counts == [2, 1]
    assert [exact(order(8), question), exact(order(3, tool("notify", {"mode": "sms"})), question)] == [1, 1]
    assert exact(order(8, tool("refund", {})), question) == 0


def test_calls_that_came_in_both_orders_are_unordered() -> None:
    a, b, last = tool("a", {}), tool("b", {}), tool("last", {})
    first, second = session([("Go", [a, b, last])]), session([("Go", [b, a, last])])
    (question,) = mined(first, second)
    calls = question["reference_data"]["reference_tool_interactions"]
    assert [call.get("unordered", False) for call in calls] == [True, True, False]
    assert [exact(first, question), exact(second, question)] == [1, 1]
    assert exact(session([("Go", [a, last, b])]), question) == 0


def test_a_failed_call_is_expected_only_on_request() -> None:
    failed = tool("pay", {}, ok=False)
    for asked, calls in (
        (False, []),
        (True, [{"tool_name": "pay", "input_arguments": {}, "status": "error"}]),
    ):
        (question,) = mined(session([("Pay", [failed])]), failed_calls=asked)
        assert question["reference_data"].get("reference_tool_interactions", []) == calls


def test_personal_data_is_masked_and_still_accepted() -> None:
    done = session(
        [("Write to ann@example.org please", [tool("send", {"to": "ann@example.org", "cc": "bo@x.org"})])],
        state_variables={"mail": "ann@example.org", "sent": True},
    )
    (question,) = mined(done)
    assert "@" not in json.dumps(question)
    assert question["user_inputs"] == ["Write to {value1} please"]
    reference = question["reference_data"]
    assert reference["reference_tool_interactions"] == [
        {"tool_name": "send", "input_arguments": {"to": {"$user": "value1"}, "cc": "*"}}
    ]
    assert reference["reference_state_variables"] == {"sent": True}
    assert exact(done, question) == 1


def test_what_only_its_key_or_its_whole_makes_personal_is_masked_too() -> None:
    login = tool("login", {"password": "hunter", "user": "u1", "phone": "+1 702 555 1212"})
    done = session([("Call +1 702 555 1212, password: hunter", [login])])
    (question,) = mined(done)
    assert [text in json.dumps(question) for text in ("hunter", "702", "1212")] == [False] * 3
    assert exact(done, question) == 1


def test_a_result_that_is_not_recorded_leaves_a_reference_to_it_open() -> None:
    (question,) = mined(order(1), order(2))
    done = order(5)
    calls = tuple(call._replace(output=None, output_known=False) for call in done.tool_interactions)
    outcome = tool_usage_accuracy.function(
        replace(done, tool_interactions=calls), GoldenQuestion.model_validate(question)
    )
    assert outcome.reason == "the result of look_up is not recorded (spangrade lint says how)"


def test_of_two_patterns_the_one_with_more_words_is_meant() -> None:
    def asking(id: str, text: str) -> GoldenQuestion:  # noqa: A002
        return GoldenQuestion.model_validate(
            {"id": id, "user_inputs": [text], "agents_evaluated": ["shop"], "reference_data": {}}
            | ({"user_values": ["v"]} if "{v}" in text else {})
        )

    class Dataset:
        golden_questions = (asking("a", "Find {v}"), asking("b", "Find my {v}"), asking("c", "Find my hat"))

    index = QuestionIndex(Dataset)  # type: ignore[arg-type]
    found = [
        index.find(session([(text, ())])) for text in ("Find it", "Find my  keys", "Find my hat", "Lose it")
    ]
    assert [[one.id for one in many.questions] for many in found] == [["a"], ["b"], ["c"], []]


def test_many_sessions_become_a_golden_file_once(spangrade: Spangrade, tmp_path: Path) -> None:
    db, golden = tmp_path / "s.duckdb", tmp_path / "golden.json"
    sessions = [
        (f"s{n}", [Said(f"Find order ORD-{n}", calls=[Call("find", {"id": f"ORD-{n}"})])])
        for n in range(1, 6)
    ]
    broken = ("broken", [Said("Find order ORD-6", None, error="boom")])
    spangrade("import", write_sessions(tmp_path / "spans.json", [*sessions, broken]), "--db", db)
    command = ("convert", "--where", "turns = 1", "--dedupe", "--db", db, "-o", golden)
    made = spangrade(*command)
    assert (made.code, made.out) == (2, [f"1 question added to {golden}; 1 left out"])
    assert made.err == ["spangrade: session broken: a turn ended in an error without an answer"]
    again = spangrade(*command[:2], "session_id <> 'broken'", *command[3:])
    name = '"find-order-1"'
    same = f"spangrade: {golden}: id {name}: {name} has the same user inputs and is kept as it is"
    assert (again.code, again.out, again.err) == (0, [f"0 questions added to {golden}"], [same])
    graded = spangrade("grade", golden, "--db", db, "--session", "s2")
    assert graded.out == ["1 session: 1 passed", "also: 1 of 1 question nobody has reviewed"]


@pytest.mark.exhaustive
def test_a_longer_list_of_calls_is_compared_whole_beside_one_that_it_contains(
    spangrade: Spangrade, tmp_path: Path
) -> None:
    def recorded(name: str, **orders: list[Call]) -> Path:
        sessions = [(one, [Said(f"Buy {one}", calls=calls)]) for one, calls in orders.items()]
        return write_sessions(tmp_path / f"{name}.json", sessions)

    short, sms = [Call("find"), Call("pay", {"by": "card"})], Call("notify", {"by": "sms"})
    golden = tmp_path / "golden.json"
    good = recorded("good", A1=short, A2=short, A3=[*short, sms], A4=[*short, sms])
    spangrade("import", good, "--db", tmp_path / "good.duckdb")
    spangrade("convert", "--dedupe", "--db", tmp_path / "good.duckdb", "-o", golden)
    (question,) = json.loads(golden.read_text())["golden_questions"]
    assert question["id"] == "buy-1"
    assert [rule for rule in question["metadata"]["learned"]["rules"] if "optional" in rule["rule"]] == [
        {
            "where": "reference_tool_alternatives[0]",
            "rule": "optional, other sessions do without: notify",
            "sessions": 2,
        }
    ]
    fax = Call("notify", {"by": "fax"})
    for calls, code in (
        (short, 0),
        ([*short, sms], 0),
        ([*short, Call("notify", {}, error="boom"), sms], 0),
        ([*short, fax], 1),
        ([short[0], sms], 1),
    ):
        done = spangrade(
            "grade", golden, "--spans", recorded("new", A5=calls), "--db", tmp_path / "new.duckdb"
        )
        assert (done.code, calls) == (code, calls)
        (tmp_path / "new.duckdb").unlink()


def test_one_session_or_many_are_converted_not_both(spangrade: Spangrade, tmp_path: Path) -> None:
    out = ("-o", tmp_path / "golden.json")
    for arguments, message in (
        ((), "convert which sessions? Expected an id, --where, --since, --limit or --dedupe"),
        (("s1", "--dedupe"), "expected the id of one session or options that choose many, not both"),
        (("--dedupe", "--wildcards"), "--id and --wildcards are about one session: give its id"),
    ):
        done = spangrade("convert", *arguments, *out)
        assert (done.code, done.err) == (2, [f"spangrade: {message}"])


def test_a_person_reviews_the_questions_of_a_golden_file(
    spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, golden = tmp_path / "s.duckdb", tmp_path / "golden.json"
    texts = ("Find ORD-1", "Find ORD-2", "Sell it", "Keep it")
    sessions = [
        (f"s{n}", [Said(text, calls=[Call("act", {"id": text[5:]})])]) for n, text in enumerate(texts, 1)
    ]
    spangrade("import", write_sessions(tmp_path / "spans.json", sessions), "--db", db)
    spangrade("convert", "--dedupe", "--db", db, "-o", golden)
    monkeypatch.setattr("sys.stdin", StringIO("pfs"))
    done = spangrade("label", "--golden", golden, "--by", "ann")
    assert (done.code, done.out[-1]) == (0, f"1 accepted, 1 taken out of {golden}")
    called = (
        'passes if: act was called with id {"$user":"value1"}, and the steps were shop, and the last reply '
    )
    assert done.out[1:3] == ["user: Find {value1}", f"{called}says the same as 'Done.', and shop took part"]
    kept = json.loads(golden.read_bytes())["golden_questions"]
    assert [(one["user_inputs"], one["reviewed"], one["metadata"].get("reviewed_by")) for one in kept] == [
        (["Find {value1}"], True, "ann"),
        (["Keep it"], False, None),
    ]
    evalset = spangrade("convert", golden, "-o", tmp_path / "evalset.json")
    text = "its user inputs have names for values; an eval set needs the texts themselves"
    assert (evalset.code, text in evalset.err[0]) == (2, True)


def test_a_reference_is_shown_as_the_value_that_it_accepts() -> None:
    (question,) = mined(order(1), order(2))
    shown = alignment(order(4), GoldenQuestion.model_validate(question))
    assert [(call.state, [value.state for value in call.values]) for call in shown.calls or ()] == [
        ("same", ["same"]),
        ("same", ["same", "same", "same"]),
    ]
    assert [value.state for value in shown.user_inputs] == ["same"]


def test_sessions_that_call_nothing_where_others_call_are_named() -> None:
    silent = [replace(session([("Cancel it", [])]), session_id=f"n{n}") for n in range(4)]
    busy = [replace(session([("Cancel it", [tool("cancel", {})])]), session_id=f"b{n}") for n in range(2)]
    for sessions, expected in (
        ((*busy, *silent), ["sessions disagree: 4 call nothing", "these tools"]),
        (silent, ["these tools"]),
    ):
        (question,) = mined(*sessions)
        rules = question["metadata"]["learned"]["rules"]
        assert [one["rule"] for one in rules if one["rule"] in ("these tools", expected[0])] == expected
