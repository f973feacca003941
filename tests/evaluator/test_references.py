"""What the references of a golden question mean, by the verdict on a session and by the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, Spangrade
from grading import grade_recorded
from made_once import new_database
from otlp_sessions import Call, Said, recorded_sessions, write_golden, write_sessions

from spangrade import Gates, Selection
from spangrade.evaluator.grading.verdict import exit_code


@pytest.fixture
def graded(spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Grade one session against a question of its own user inputs with the references given."""
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "SPANGRADE_JUDGE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def grade(*turns: Said, options: tuple[str, ...] = (), **references: Any) -> Done:
        new_database(Path("spangrade.duckdb"))
        asked = {"id": "q1", "user_inputs": [turn.user for turn in turns]}
        write_golden(Path("golden.json"), {**asked, **references})
        write_sessions(Path("spans.jsonl"), [("s1", turns)])
        return spangrade("grade", "golden.json", "--spans", "spans.jsonl", *options)

    return grade


def code(*turns: Said, gates: tuple[str, ...] = (), **references: Any) -> int:
    """The exit code of a grade of one session, against a question of its own user inputs."""
    question = {"user_inputs": [turn.user for turn in turns], **references}
    return exit_code([grade_recorded(recorded_sessions([("s1", turns)]), question, Gates(gates)).verdict])


@pytest.mark.parametrize("matcher", ["exact", "subset"])
@pytest.mark.parametrize("arguments", [{"id": 10**24 + 1}, {"ids": [{"id": -(10**24) - 1}]}])
def test_integers_of_any_length_are_compared_exactly(matcher: str, arguments: dict[str, Any]) -> None:
    other = {"id": 10**24 + 2} if "id" in arguments else {"ids": [{"id": -(10**24) - 2}]}
    call = {"tool_name": "find", "input_arguments": arguments}
    codes = [
        code(
            Said("Hi", calls=[Call("find", made)]),
            gates=(f"tools:exact:{matcher}>=1",),
            reference_tool_interactions=[call],
        )
        for made in (arguments, other)
    ]
    assert codes == [0, 1]


FIND, SELL = {"tool_name": "find"}, {"tool_name": "sell"}


@pytest.mark.parametrize(
    ("calls", "expected"), [(["find"], 0), (["sell", "sell"], 0), (["sell"], 1), ([], 1)]
)
def test_alternatives_alone_are_a_reference(calls: list[str], expected: int) -> None:
    said = Said("Hi", calls=[Call(name) for name in calls])
    assert code(said, reference_tool_alternatives=[[FIND], [SELL, SELL]]) == expected


@pytest.mark.parametrize("alternatives", [[[]], [[FIND], []]])
def test_an_alternative_without_calls_is_refused(graded: Any, alternatives: list[Any]) -> None:
    """Every session would meet it."""
    done = graded(Said("Hi"), reference_tool_interactions=[FIND], reference_tool_alternatives=alternatives)
    where = f"reference_data.reference_tool_alternatives[{len(alternatives) - 1}]"
    error = f'spangrade: golden.json: golden_questions[0] (id "q1").{where}: must not be empty'
    assert (done.code, done.err) == (2, [error])


@pytest.mark.parametrize(
    ("calls", "expected"), [((), 0), ((Call("find"),), 1), ((Call("find", error="no connection"),), 1)]
)
def test_an_empty_list_of_calls_expects_that_no_tool_is_called(
    calls: tuple[Call, ...], expected: int
) -> None:
    assert code(Said("Hi", calls=calls), reference_tool_interactions=[]) == expected


def test_no_calls_or_those_of_an_alternative() -> None:
    references = {"reference_tool_interactions": [], "reference_tool_alternatives": [[FIND]]}
    codes = [
        code(Said("Hi", calls=[Call(name) for name in names]), **references)
        for names in ([], ["find"], ["sell"])
    ]
    assert codes == [0, 0, 1]


def test_a_log_without_expected_calls_expects_none_in_particular(
    spangrade: Spangrade, tmp_path: Path
) -> None:
    log, golden = tmp_path / "log.json", tmp_path / "golden.json"
    for turns, expected in (
        ([{"query": "Hi"}], None),
        ([{"query": "Hi"}, {"query": "Bye", "expected_tool_use": []}], []),
        ([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}], None),
    ):
        log.write_text(json.dumps(turns))
        golden.unlink(missing_ok=True)
        options = ("--input", log, "--output", golden, "--agent", "shop")
        assert spangrade("convert_test_to_golden.py", *options).code == 0
        (question,) = json.loads(golden.read_text())["golden_questions"]
        assert question["reference_data"].get("reference_tool_interactions") == expected


def test_an_eval_set_keeps_whether_calls_are_expected(spangrade: Spangrade, tmp_path: Path) -> None:
    golden, evalset, again = (tmp_path / f"{name}.json" for name in ("golden", "a.evalset", "again"))
    for references in ({}, {"reference_tool_interactions": []}, {"reference_tool_interactions": [FIND]}):
        write_golden(golden, {"id": "q1", "user_inputs": ["Hi"], **references})
        for file in (evalset, again):
            file.unlink(missing_ok=True)
        options = ("convert", "--agent-name", "shop")
        assert spangrade(*options, golden, "--output", evalset).code == 0
        assert spangrade(*options, evalset, "--output", again).code == 0
        (question,) = json.loads(again.read_text())["golden_questions"]
        calls = question["reference_data"].get("reference_tool_interactions")
        assert (calls and [call["tool_name"] for call in calls]) == (
            references.get("reference_tool_interactions") and ["find"]
        )


@pytest.fixture
def linted(spangrade: Spangrade, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Return the findings of `lint` about a question, beside a session that calls two tools."""
    db = new_database(tmp_path / "s.duckdb")
    recording = write_sessions(tmp_path / "spans.jsonl", [("s1", [Said("Hi", calls=[FOUND, DELETE])])])
    assert spangrade("import", recording, "--db", db).code == 0

    def lint(**references: Any) -> list[dict[str, Any]]:
        golden = write_golden(tmp_path / "golden.json", {"id": "q1", "user_inputs": ["Hi"], **references})
        done = spangrade("lint", "--dataset", golden, "--db", db, "--format", "json")
        assert done.err == []
        found: list[dict[str, Any]] = json.loads("\n".join(done.out))
        return found

    return lint


def test_lint_names_a_dataset_that_expects_no_call_at_all(linted: Any) -> None:
    """Older versions of the converters wrote an empty list where nothing was known."""

    def codes(**references: Any) -> list[str]:
        return [finding["code"] for finding in linted(**references)]

    assert "no_calls_expected" in codes(reference_tool_interactions=[])
    assert "no_calls_expected" not in codes(reference_tool_interactions=[FIND])
    assert "no_calls_expected" not in codes(reference_trajectory=["shop"])


DELETE = Call("delete_account", {"id": 1})
FOUND = Call("find", {"q": "a"})


@pytest.mark.parametrize(
    ("calls", "expected"),
    [((FOUND,), 0), ((FOUND, DELETE), 1), ((FOUND, DELETE._replace(error="refused")), 1), ((DELETE,), 1)],
)
def test_a_forbidden_tool_fails_the_session_that_calls_it(calls: tuple[Call, ...], expected: int) -> None:
    references = {"reference_tool_interactions": [FIND], "forbidden_tools": ["delete_account", "refund"]}
    assert code(Said("Hi", calls=calls), **references) == expected
    alone = code(Said("Hi", calls=calls), forbidden_tools=["delete_account"])
    assert alone == int(DELETE.name in [call.name for call in calls])


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ((FOUND,), 0),
        ((FOUND._replace(error="no connection"), FOUND), 0),  # made again
        ((FOUND, FOUND._replace(error="no connection")), 1),
        ((FOUND, FOUND), 1),
        ((FOUND, DELETE), 1),
        ((), 1),
    ],
)
def test_no_further_calls_are_allowed_beside_those_expected(calls: tuple[Call, ...], expected: int) -> None:
    said = Said("Hi", calls=calls)
    assert code(said, reference_tool_interactions=[FIND], no_further_calls=True) == expected
    assert code(said, reference_tool_interactions=[FIND], no_further_calls=False) == int(not calls)


def test_unexpected_calls_are_counted_and_can_be_a_gate(graded: Any) -> None:
    said = Said("Hi", calls=[FOUND, DELETE, DELETE])
    options = ("--format", "json")
    done = graded(said, options=options, reference_tool_interactions=[FIND])
    assert (done.code, json.loads("\n".join(done.out))["metrics"]["unexpected_calls"]["mean"]) == (0, 2)
    gate = ("--metric", "unexpected_calls<=1", "--metric", "tools:recall>=1")
    assert graded(said, options=gate, reference_tool_interactions=[FIND]).code == 1


BEFORE = (
    '["FIRST", "THEN"], or {"first": "FIRST", "then": "THEN", "same": ["ARGUMENT"], '
    '"from_result": ["ARGUMENT"]}'
)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("forbidden_tools", "delete_account", "expected a list of strings, found a string"),
        ("forbidden_tools", [], "must not be empty"),
        ("no_further_calls", "yes", "expected true or false, or a list of tools, found a string"),
        ("no_further_calls", [], "must not be empty"),
        ("at_most", {"find": "3"}, "find: expected a whole number, 0 or more"),
        ("at_most", 3, "expected an object of tools, each with the most calls of it, found a number"),
        ("before", [["find"]], f"expected {BEFORE}, found a list"),
        (
            "before",
            [{"first": "find", "than": "sell"}],
            'unknown key "than"; the keys here are first, then, same, from_result',
        ),
        ("before", [["find", "find"]], "expected two tools, found find twice"),
        ("forbidden_tools", {"tools": []}, "must not be empty"),
        ("forbidden_tools", {"tools": ["a"], "failed_calls": "count"}, 'failed_calls: expected "ignore"'),
        ("failed_calls", "count", "Input should be 'ignore'"),
        ("forbiden_tools", ["a"], 'unknown key "forbiden_tools"; did you mean "forbidden_tools"?'),
    ],
)
def test_a_mistake_in_what_is_forbidden_is_one_line(
    tmp_path: Path, spangrade: Spangrade, key: str, value: Any, expected: str
) -> None:
    golden = write_golden(tmp_path / "golden.json", {"id": "q1", "user_inputs": ["Hi"], key: value})
    done = spangrade("grade", golden, "--db", new_database(tmp_path / "s.duckdb"))
    (line,) = done.err
    assert (done.code, line.endswith(expected)) == (2, True), line


def test_lint_advises_where_further_calls_were_made_and_are_allowed(linted: Any) -> None:
    def findings(**references: Any) -> list[str]:
        found = linted(reference_tool_interactions=[FIND], **references)
        return [one["what"] for one in found if one["code"] == "no_further_calls"]

    what = 'golden question q1 allows further calls; not expected: delete_account{"id":1}'
    assert findings() == [what]
    assert findings(no_further_calls=True) == []
    assert findings(forbidden_tools=["refund"]) == []


WAITS = Call("find", {}, result={"error": "This tool call requires confirmation, please approve or reject."})


@pytest.mark.parametrize(
    ("middle", "last", "expected"),
    [
        (Said("And then?", "Then this."), Said("Bye", "Bye."), 0),
        (Said("And then?", ""), Said("Bye", "Bye."), 1),
        (Said("And then?", "  "), Said("Bye", "Bye."), 1),
        (Said("And then?", "Then this."), Said("Bye", ""), 1),
        (Said("And then?", None), Said("Bye", "Bye."), 0),  # not recorded, and not expected
        (Said("And then?", "", calls=[WAITS]), Said("Bye", "Bye."), 0),
    ],
)
def test_every_turn_has_a_reply_unless_an_approval_stands_there(
    middle: Said, last: Said, expected: int
) -> None:
    turns = [Said("Hi", calls=[FOUND]), middle, last]
    question = {"user_inputs": [turn.user for turn in turns], "reference_tool_interactions": [FIND]}
    grade = grade_recorded(recorded_sessions([("s1", turns)]), question)
    number = 2 if last.reply else 3
    found = exit_code([grade.verdict]), f"turn {number} has an empty reply" in grade.reason
    assert found == (expected, expected == 1)


def test_a_turn_that_an_event_began_or_that_ends_with_a_handoff_needs_no_reply() -> None:
    """The second of three turns has an empty reply: once without a user's message, once after a hand-off."""
    middle = Said("And then?", "", calls=[Call("transfer_to_human", {})])
    turns = [Said("Hi", calls=[FOUND]), middle, Said("Bye")]
    recorded = recorded_sessions([("s1", turns)])
    question = {"user_inputs": [turn.user for turn in turns], "reference_tool_interactions": [FIND]}

    def graded() -> tuple[int, bool]:
        grade = grade_recorded(recorded, question, select=Selection(answers={"s1": "q1"}))
        return exit_code([grade.verdict]), "turn 2 has an empty reply" in grade.reason

    assert graded() == (1, True)  # the agent went on
    spans = recorded["resourceSpans"][0]["scopeSpans"][0]["spans"]
    chat = [span for span in spans if span["name"].startswith("chat")][1]
    (handoff,) = (span for span in spans if span["name"] == "execute_tool transfer_to_human")
    times = handoff["startTimeUnixNano"], handoff["endTimeUnixNano"]
    handoff["startTimeUnixNano"], handoff["endTimeUnixNano"] = (
        chat["startTimeUnixNano"],
        chat["endTimeUnixNano"],
    )
    assert graded() == (0, False)
    handoff["startTimeUnixNano"], handoff["endTimeUnixNano"] = times
    assert graded() == (1, True)
    for span in spans:
        if span["traceId"] == chat["traceId"]:
            span["attributes"] = [one for one in span["attributes"] if one["key"] != "gen_ai.input.messages"]
    assert graded() == (0, False)


@pytest.mark.parametrize(
    ("replies", "expected", "why"),
    [
        (("One.", "Two.", "Three."), 0, ""),
        (("One.", "Other.", "Three."), 0, ""),  # any is accepted
        (("One.", None, "Three."), 0, ""),
        (
            ("Uno.", "Two.", "Three."),
            4,
            "reference_responses[0] cannot be compared: the reply of turn 1 differs",
        ),
        (
            (None, "Two.", "Three."),
            4,
            "reference_responses[0] cannot be compared: the reply of turn 1 is not",
        ),
        (("One.", "Two.", ""), 1, "turn 3: the reply is empty"),
    ],
)
def test_the_reply_to_each_user_input_can_be_expected(
    replies: tuple[str | None, ...], expected: int, why: str
) -> None:
    turns = [Said(f"Say {number}", reply) for number, reply in enumerate(replies, 1)]
    references = {"reference_responses": ["One.", None, "Three."]}
    question = {"user_inputs": [turn.user for turn in turns], **references}
    grade = grade_recorded(recorded_sessions([("s1", turns)]), question)
    assert (exit_code([grade.verdict]), why in grade.reason) == (expected, True), grade


def test_as_many_replies_are_expected_as_there_are_user_inputs(graded: Any) -> None:
    done = graded(Said("Hi"), Said("Bye"), reference_responses=["Done."])
    expected = (
        "reference_data.reference_responses: expected 2, one for each user input (null for any), found 1"
    )
    assert (done.code, done.err) == (
        2,
        [f'spangrade: golden.json: golden_questions[0] (id "q1"): {expected}'],
    )
    assert graded(Said("Hi"), Said("Bye"), reference_responses=[None, None]).code == 4


@pytest.mark.parametrize("gates", [(), ("tools:recall>=1",), ("tools:exact>=1",)])
def test_a_call_that_only_the_longer_alternative_names_is_held_against_that_one(
    gates: tuple[str, ...],
) -> None:
    sms = {"tool_name": "notify", "input_arguments": {"by": "sms"}}
    alternatives = [[{"tool_name": "find"}], [{"tool_name": "find"}, sms]]
    for calls, expected in ((["sms"], 0), ([], 0), (["fax"], 1)):
        made = [Call("find", {}), *(Call("notify", {"by": by}) for by in calls)]
        done = code(Said("Hi", calls=made), reference_tool_alternatives=alternatives, gates=gates)
        assert (calls, done) == (calls, expected)
