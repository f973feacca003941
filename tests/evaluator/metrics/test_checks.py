"""Every row of tests/cases/checks.md is graded, and what it says of forms that are not as they must be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import session, tool
from grading import grade

from spangrade import InputError
from spangrade.converters.datasets.golden import golden_of
from spangrade.evaluator.metrics import parse_metric
from spangrade.evaluator.session import Session

PAGE = Path(__file__).parents[2] / "cases" / "checks.md"


def rows(header: str) -> list[list[str]]:
    """Return the cells of the rows of the table with a header."""
    table = PAGE.read_text(encoding="utf-8").split(f"\n{header}\n")[1].split("\n\n")[0]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()[1:]]


def values(cell: str) -> list[Any]:
    """Return the JSON values of a cell."""
    return [json.loads(code) for code in re.findall(r"`([^`]+)`", cell)]


def verdict(made: Session, references: dict[str, Any], *gates: str) -> str:
    inputs = [turn.user_input for turn in made.turns]
    dataset = golden_of([{"id": "q1", "user_inputs": inputs, **references}], "golden.json")
    (one,) = grade([made], dataset, [parse_metric(gate) for gate in gates])
    return str(one.verdict)


def said(*replies: str) -> Session:
    made = session([("hi", []) for _ in replies])
    turns = zip(made.turns, replies, strict=True)
    return replace(made, turns=tuple(turn._replace(final_response=reply) for turn, reply in turns))


def cases() -> Iterator[Any]:
    for expected, matching, differing in rows("| expected | matches | does not match |"):
        call = {"name": "find", "arguments": json.loads(expected.strip("`"))}
        yield pytest.param(call, values(matching), values(differing), id=expected)
    for match, expected, matching, differing in rows("| `match` | expected | matches | does not match |"):
        word = re.findall(r"`(\w+)`", match)[0]
        call = {"name": "find", "arguments": json.loads(expected.strip("`")), "match": word}
        yield pytest.param(call, values(matching), values(differing), id=word)


@pytest.mark.parametrize(("call", "matching", "differing"), [*cases()])
def test_a_value_is_compared_as_the_page_says(call: Any, matching: list[Any], differing: list[Any]) -> None:
    def graded(arguments: Any) -> str:
        made = session([("hi", [tool("find", arguments)])])
        return verdict(made, {"reference_tool_interactions": [call]})

    assert {graded(arguments) for arguments in matching} == {"passed"}
    assert {graded(arguments) for arguments in differing} <= {"failed"}


@pytest.mark.parametrize(
    "expected",
    [json.loads(row[0].strip("`")) for row in rows("| expected | matches | does not match |")],
    ids=str,
)
def test_the_words_count_in_results_and_in_the_state_too(expected: dict[str, Any]) -> None:
    row = next(
        row
        for row in rows("| expected | matches | does not match |")
        if json.loads(row[0].strip("`")) == expected
    )
    call = {"name": "find", "result": expected}
    for actual, wanted in [(one, "passed") for one in values(row[1])] + [
        (one, "failed") for one in values(row[2])
    ]:
        returned = session([("hi", [tool("find", {}, output=actual, output_known=True)])])
        assert verdict(returned, {"reference_tool_interactions": [call]}) == wanted
        if "n" not in str(actual):  # in state, further keys differ
            kept = session(state_variables=actual)
            assert verdict(kept, {"reference_state_variables": expected}) == wanted


@pytest.mark.parametrize("key", ["required_texts", "reference_response"])
def test_a_text_is_looked_for_as_the_page_says(key: str) -> None:
    for expected, passing, failing in rows(f"| `{key}` | replies that pass | replies that fail |"):
        for cell, wanted in ((passing, "passed"), (failing, "failed")):
            for replies in values(cell):
                made = said(*replies)
                assert verdict(made, {key: json.loads(expected.strip("`"))}) == wanted, replies


MADE = {"find": tool("find", {"id": 1}), "pay": tool("pay", {"sum": 5}), "look": tool("look", {})}


def test_each_mode_of_agentevals_is_one_line() -> None:
    expected = [
        {"name": call.tool_name, "arguments": call.input_arguments} for call in (MADE["find"], MADE["pay"])
    ]
    modes = []
    for mode, here, passing, failing in rows("| `trajectory_match_mode` | here | passes | fails |"):
        modes.append(re.findall(r"`(\w+)`", mode)[0])
        line = "".join(re.findall(r"`([^`]+)`", here))
        gates = [line.removeprefix("--metric ")] if line.startswith("--") else []
        more = json.loads(f"{{{line}}}") if line.startswith('"') else {}
        for cell, wanted in ((passing, "passed"), (failing, "failed")):
            for names in values(cell):
                made = session([("hi", [MADE[name] for name in names])])
                references = {"reference_tool_interactions": expected, **more}
                assert verdict(made, references, *gates) == wanted, (mode, names)
    assert modes == ["strict", "unordered", "subset", "superset"]


def test_each_rule_of_agentevals_for_arguments_is_one_line() -> None:
    modes = []
    for mode, here, passing, failing in rows("| `tool_args_match_mode` | here | passes | fails |"):
        modes += re.findall(r"^`(\w+)`", mode)
        (line,) = re.findall(r"`([^`]+)`", here)
        call = {"tool_name": "find", "input_arguments": {"id": 1, "lang": "en"}, **json.loads(f"{{{line}}}")}
        for cell, wanted in ((passing, "passed"), (failing, "failed")):
            for arguments in values(cell):
                made = session([("hi", [tool("find", arguments)])])
                assert verdict(made, {"reference_tool_interactions": [call]}) == wanted, (mode, arguments)
    assert modes == ["exact", "superset", "subset", "ignore"]


def test_the_state_is_compared_as_the_page_says() -> None:
    header = "| `reference_state_variables` | exact | states that pass | states that fail |"
    for expected, exact, passing, failing in rows(header):
        references = {
            "reference_state_variables": json.loads(expected.strip("`")),
            "reference_state_exact": json.loads(exact),
        }
        for cell, wanted in ((passing, "passed"), (failing, "failed")):
            for state in values(cell):
                assert verdict(session(state_variables=state), references) == wanted, state


def test_what_else_is_in_the_state_is_named_and_no_state_is_inconclusive() -> None:
    references = {"reference_state_variables": {"cart.total": 5}, "reference_state_exact": True}
    dataset = golden_of([{"id": "q1", "user_inputs": "hi", **references}], "g.json")
    more = session(state_variables={"cart": {"total": 5, "n": [1]}, "x": None})
    (one,) = grade([more], dataset)
    further = "cart.n: expected nothing, was [1]; x: expected nothing, was null"
    assert one.reason == f"reference_state_exact: {further}"
    assert verdict(session(), references) == "inconclusive"


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({"$any": "NY"}, '"$any": a list of one value or more, null as {"$null": true}'),
        ({"$any": ["NY", None]}, '"$any": a list of one value or more, null as {"$null": true}'),
        ({"$text": "..."}, '"$text": a text with a word'),
        ({"$number": "5"}, '"$number": a number, and "within": a number from 0 on'),
        ({"$number": 5, "within": -1}, '"$number": a number, and "within": a number from 0 on'),
        ({"$pattern": "("}, '"$pattern": a regular expression of Python'),
        ({"$null": False}, '"$null": true'),
        ([{"$absent": True}], '"$absent": true, as the value of a key'),
    ],
    ids=str,
)
def test_a_form_that_is_not_as_it_must_be_is_refused(form: Any, problem: str) -> None:
    calls = [{"name": "find", "arguments": {"items": {"city": form}}}]
    with pytest.raises(InputError) as refused:
        golden_of([{"id": "q1", "user_inputs": "hi", "reference_tool_interactions": calls}], "golden.json")
    (line,) = refused.value.lines
    place, found = ("[0]", form[0]) if isinstance(form, list) else ("", form)
    assert line == (
        'golden.json: [0] (id "q1").reference_tool_interactions[0].input_arguments: '
        f"items.city{place}: expected {problem}, found {json.dumps(found)} "
        '(an object that is data: {"$literal": …})'
    )


@pytest.mark.parametrize(
    "text", [{"$any": []}, {"$any": [1]}, {"$pattern": "("}, {"$text": "x"}, 5, {"turn": 1}], ids=str
)
def test_a_required_text_is_a_text_one_of_several_or_a_pattern(text: Any) -> None:
    with pytest.raises(InputError, match=r"required_texts\[0\]"):
        golden_of([{"id": "q1", "user_inputs": "hi", "required_texts": [text]}], "golden.json")


def test_values_of_which_one_was_expected_are_named_as_many_as_there_is_room_for() -> None:
    wanted = {"$any": [f"order number {number:03}" for number in range(20)]}
    call = {"name": "find", "arguments": {"id": wanted}}
    dataset = golden_of([{"id": "q1", "user_inputs": "hi", "reference_tool_interactions": [call]}], "g.json")
    (one,) = grade([session([("hi", [tool("find", {"id": "A1"})])])], dataset)
    named = " or ".join(f'"order number {number:03}"' for number in range(5))
    assert one.reason == f'tool_usage_accuracy: find(id): expected {named} or 15 more, was "A1"'


def test_a_search_that_does_not_end_is_inconclusive() -> None:
    pattern, text = "(a+)+$", "a" * 40 + "b"
    call = {"name": "find", "arguments": {"q": {"$pattern": pattern}}}
    made = session([("hi", [tool("find", {"q": text})])])
    assert verdict(made, {"reference_tool_interactions": [call]}) == "inconclusive"
    assert (
        verdict(said(text), {"reference_response": {"text": pattern, "match": "pattern"}}) == "inconclusive"
    )
    assert verdict(said(text), {"required_texts": [{"$any": ["x", {"$pattern": pattern}]}]}) == "inconclusive"
    kept = session(state_variables={"q": text})
    assert verdict(kept, {"reference_state_variables": {"q": {"$pattern": pattern}}}) == "inconclusive"


def test_a_reply_that_differs_names_both_ways_on_without_a_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "SPANGRADE_JUDGE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    dataset = golden_of([{"id": "q1", "user_inputs": "hi", "reference_response": "It shipped."}], "g.json")
    (one,) = grade([said("On its way.")], dataset)
    assert one.verdict == "inconclusive"
    assert 'say how to compare: {"text": …, "match": "contains"} (exact, pattern)' in one.reason
