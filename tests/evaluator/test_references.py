"""What the references of a golden question mean, graded by the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, Spangrade
from made_once import new_database
from otlp_sessions import Call, Said, write_golden, write_sessions


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


@pytest.mark.parametrize("matcher", ["exact", "subset"])
@pytest.mark.parametrize("arguments", [{"id": 10**24 + 1}, {"ids": [{"id": -(10**24) - 1}]}])
def test_integers_of_any_length_are_compared_exactly(
    graded: Any, matcher: str, arguments: dict[str, Any]
) -> None:
    gate = (f"--metric=tool_exact_match:{matcher}>=1",)
    call = {"tool_name": "find", "input_arguments": arguments}
    assert (
        graded(
            Said("Hi", calls=[Call("find", arguments)]), options=gate, reference_tool_interactions=[call]
        ).code
        == 0
    )
    other = {"id": 10**24 + 2} if "id" in arguments else {"ids": [{"id": -(10**24) - 2}]}
    assert (
        graded(Said("Hi", calls=[Call("find", other)]), options=gate, reference_tool_interactions=[call]).code
        == 1
    )


FIND, SELL = {"tool_name": "find"}, {"tool_name": "sell"}


@pytest.mark.parametrize(("calls", "code"), [(["find"], 0), (["sell", "sell"], 0), (["sell"], 1), ([], 1)])
def test_alternatives_alone_are_a_reference(graded: Any, calls: list[str], code: int) -> None:
    said = Said("Hi", calls=[Call(name) for name in calls])
    assert graded(said, reference_tool_alternatives=[[FIND], [SELL, SELL]]).code == code


@pytest.mark.parametrize("alternatives", [[[]], [[FIND], []]])
def test_an_alternative_without_calls_is_refused(graded: Any, alternatives: list[Any]) -> None:
    """Every session would meet it."""
    done = graded(Said("Hi"), reference_tool_interactions=[FIND], reference_tool_alternatives=alternatives)
    where = f"reference_data.reference_tool_alternatives[{len(alternatives) - 1}]"
    error = f'spangrade: golden.json: golden_questions[0] (id "q1").{where}: must not be empty'
    assert (done.code, done.err) == (2, [error])


@pytest.mark.parametrize(
    ("calls", "code"), [((), 0), ((Call("find"),), 1), ((Call("find", error="no connection"),), 1)]
)
def test_an_empty_list_of_calls_expects_that_no_tool_is_called(
    graded: Any, calls: tuple[Call, ...], code: int
) -> None:
    done = graded(Said("Hi", calls=calls), reference_tool_interactions=[])
    assert done.code == code


def test_no_calls_or_those_of_an_alternative(graded: Any) -> None:
    references = {"reference_tool_interactions": [], "reference_tool_alternatives": [[FIND]]}
    codes = [
        graded(Said("Hi", calls=[Call(name) for name in names]), **references).code
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
        assert spangrade("convert", "test-to-golden", *options).code == 0
        (question,) = json.loads(golden.read_text())["golden_questions"]
        assert question["reference_data"].get("reference_tool_interactions") == expected


def test_an_eval_set_keeps_whether_calls_are_expected(spangrade: Spangrade, tmp_path: Path) -> None:
    golden, evalset, again = (tmp_path / f"{name}.json" for name in ("golden", "a.evalset", "again"))
    for references in ({}, {"reference_tool_interactions": []}, {"reference_tool_interactions": [FIND]}):
        write_golden(golden, {"id": "q1", "user_inputs": ["Hi"], **references})
        for file in (evalset, again):
            file.unlink(missing_ok=True)
        options = ("convert", "evalset", "--agent", "shop", "--input")
        assert spangrade(*options, golden, "--output", evalset).code == 0
        assert spangrade(*options, evalset, "--output", again).code == 0
        (question,) = json.loads(again.read_text())["golden_questions"]
        calls = question["reference_data"].get("reference_tool_interactions")
        assert (calls and [call["tool_name"] for call in calls]) == (
            references.get("reference_tool_interactions") and ["find"]
        )


def test_lint_names_a_dataset_that_expects_no_call_at_all(graded: Any, spangrade: Spangrade) -> None:
    """Older versions of the converters wrote an empty list where nothing was known."""

    def codes(**references: Any) -> list[str]:
        graded(Said("Hi", calls=[Call("find")]), **references)
        done = spangrade("lint", "--dataset", "golden.json", "--format", "json")
        assert done.err == []
        return [finding["code"] for finding in json.loads("\n".join(done.out))]

    assert "no_calls_expected" in codes(reference_tool_interactions=[])
    assert "no_calls_expected" not in codes(reference_tool_interactions=[FIND])
    assert "no_calls_expected" not in codes(reference_trajectory=["shop"])


DELETE = Call("delete_account", {"id": 1})
FOUND = Call("find", {"q": "a"})


@pytest.mark.parametrize(
    ("calls", "code"),
    [((FOUND,), 0), ((FOUND, DELETE), 1), ((FOUND, DELETE._replace(error="refused")), 1), ((DELETE,), 1)],
)
def test_a_forbidden_tool_fails_the_session_that_calls_it(
    graded: Any, calls: tuple[Call, ...], code: int
) -> None:
    references = {"reference_tool_interactions": [FIND], "forbidden_tools": ["delete_account", "refund"]}
    assert graded(Said("Hi", calls=calls), **references).code == code
    alone = graded(Said("Hi", calls=calls), forbidden_tools=["delete_account"])
    assert alone.code == int(DELETE.name in [call.name for call in calls])


@pytest.mark.parametrize(
    ("calls", "code"),
    [
        ((FOUND,), 0),
        ((FOUND._replace(error="no connection"), FOUND), 0),  # made again
        ((FOUND, FOUND._replace(error="no connection")), 1),
        ((FOUND, FOUND), 1),
        ((FOUND, DELETE), 1),
        ((), 1),
    ],
)
def test_no_further_calls_are_allowed_beside_those_expected(
    graded: Any, calls: tuple[Call, ...], code: int
) -> None:
    said = Said("Hi", calls=calls)
    assert graded(said, reference_tool_interactions=[FIND], no_further_calls=True).code == code
    assert graded(said, reference_tool_interactions=[FIND], no_further_calls=False).code == int(not calls)


def test_unexpected_calls_are_counted_and_can_be_a_gate(graded: Any) -> None:
    said = Said("Hi", calls=[FOUND, DELETE, DELETE])
    options = ("--format", "json")
    done = graded(said, options=options, reference_tool_interactions=[FIND])
    assert (done.code, json.loads("\n".join(done.out))["metrics"]["unexpected_calls"]["mean"]) == (0, 2)
    gate = ("--metric", "unexpected_calls<=1", "--metric", "tool_recall>=1")
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
    graded: Any, tmp_path: Path, spangrade: Spangrade, key: str, value: Any, expected: str
) -> None:
    graded(Said("Hi"))
    document = json.loads(Path("golden.json").read_text())
    document["golden_questions"][0]["reference_data"] = {key: value}
    Path("golden.json").write_text(json.dumps(document))
    done = spangrade("grade", "golden.json")
    (line,) = done.err
    assert (done.code, line.endswith(expected)) == (2, True), line


def test_lint_advises_where_further_calls_were_made_and_are_allowed(
    graded: Any, spangrade: Spangrade
) -> None:
    def findings(**references: Any) -> list[str]:
        graded(Said("Hi", calls=[FOUND, DELETE]), reference_tool_interactions=[FIND], **references)
        done = spangrade("lint", "--dataset", "golden.json", "--format", "json")
        found = json.loads("\n".join(done.out))
        return [one["what"] for one in found if one["code"] == "further_calls"]

    what = 'golden question q1 allows further calls; not expected: delete_account{"id":1}'
    assert findings() == [what]
    assert findings(no_further_calls=True) == []
    assert findings(forbidden_tools=["refund"]) == []


WAITS = Call("find", {}, result={"error": "This tool call requires confirmation, please approve or reject."})


@pytest.mark.parametrize(
    ("middle", "last", "code"),
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
    graded: Any, middle: Said, last: Said, code: int
) -> None:
    done = graded(Said("Hi", calls=[FOUND]), middle, last, reference_tool_interactions=[FIND])
    number = 2 if last.reply else 3
    assert (done.code, f"turn {number} has an empty reply" in "\n".join(done.out)) == (code, code == 1)


def test_a_turn_that_an_event_began_or_that_ends_with_a_handoff_needs_no_reply(
    graded: Any, spangrade: Spangrade
) -> None:
    """The second of three turns has an empty reply: once without a user's message, once after a hand-off."""
    transfer = Call("transfer_to_human", {})
    middle = Said("And then?", "", calls=[transfer])
    done = graded(Said("Hi", calls=[FOUND]), middle, Said("Bye"), reference_tool_interactions=[FIND])
    assert (done.code, "turn 2 has an empty reply" in "\n".join(done.out)) == (1, True)  # the agent went on
    recorded = json.loads(Path("spans.jsonl").read_text())
    spans = recorded["resourceSpans"][0]["scopeSpans"][0]["spans"]
    chat = [span for span in spans if span["name"].startswith("chat")][1]

    def graded_again() -> Done:
        new_database(Path("spangrade.duckdb"))
        Path("spans.jsonl").write_text(json.dumps(recorded))
        return spangrade("grade", "golden.json", "--spans", "spans.jsonl", "--answers", "s1=q1")

    (handoff,) = (span for span in spans if span["name"] == "execute_tool transfer_to_human")
    times = handoff["startTimeUnixNano"], handoff["endTimeUnixNano"]
    handoff["startTimeUnixNano"], handoff["endTimeUnixNano"] = (
        chat["startTimeUnixNano"],
        chat["endTimeUnixNano"],
    )
    assert graded_again().code == 0
    handoff["startTimeUnixNano"], handoff["endTimeUnixNano"] = times
    assert graded_again().code == 1
    for span in spans:
        if span["traceId"] == chat["traceId"]:
            span["attributes"] = [one for one in span["attributes"] if one["key"] != "gen_ai.input.messages"]
    assert graded_again().code == 0


@pytest.mark.parametrize(
    ("replies", "code", "why"),
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
    graded: Any, replies: tuple[str | None, ...], code: int, why: str
) -> None:
    turns = [Said(f"Say {number}", reply) for number, reply in enumerate(replies, 1)]
    done = graded(*turns, reference_responses=["One.", None, "Three."])
    assert (done.code, why in " ".join(" ".join(done.out).split())) == (code, True), done.out


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


@pytest.mark.parametrize("options", [(), ("--metric", "tool_recall>=1"), ("--metric", "tool_exact_match>=1")])
def test_a_call_that_only_the_longer_alternative_names_is_held_against_that_one(
    graded: Any, options: tuple[str, ...]
) -> None:
    sms = {"tool_name": "notify", "input_arguments": {"by": "sms"}}
    alternatives = [[{"tool_name": "find"}], [{"tool_name": "find"}, sms]]
    for calls, code in ((["sms"], 0), ([], 0), (["fax"], 1)):
        made = [Call("find", {}), *(Call("notify", {"by": by}) for by in calls)]
        done = graded(Said("Hi", calls=made), reference_tool_alternatives=alternatives, options=options)
        assert (calls, done.code) == (calls, code)
