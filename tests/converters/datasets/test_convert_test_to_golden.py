"""Conversation logs into golden questions."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, Spangrade
from paths import CAPTURED, ROOT

from spangrade import InputError
from spangrade.converters.datasets.conversation_log import free_id
from spangrade.converters.datasets.files import write_text

captured = pytest.mark.skipif(not CAPTURED.is_dir(), reason="the captured files are not in this checkout")

LOG = [
    {"query": "hi", "expected_tool_use": [], "reference": "Hello."},
    {
        "query": "my cart?",
        "expected_tool_use": [{"tool_name": "get_cart", "tool_input": {"id": "1"}}],
        "reference": "Two bags.",
    },
]


@pytest.fixture
def convert(spangrade: Spangrade, tmp_path: Path) -> Spangrade:
    """Convert a log; its conversion is in `golden.json`."""

    def converted(log: Any, *options: str) -> Done:
        (tmp_path / "log.json").write_text(json.dumps(log), encoding="utf-8")
        files = ("--input", tmp_path / "log.json", "--output", tmp_path / "golden.json")
        return spangrade("convert_test_to_golden.py", *files, "--agent", "shop", *options)

    return converted


def questions(tmp_path: Path) -> list[dict[str, Any]]:
    content: dict[str, Any] = json.loads((tmp_path / "golden.json").read_text(encoding="utf-8"))
    return list(content["golden_questions"])


def content(question: dict[str, Any]) -> dict[str, Any]:
    """A question without what differs from one conversion to the next."""
    return {key: value for key, value in question.items() if key not in ("id", "updated_datetime")}


@captured
def test_the_captured_dataset_is_made_from_its_log(spangrade: Spangrade, tmp_path: Path) -> None:
    done = spangrade(
        *("convert_test_to_golden.py", "--agent", "customer_service", "--id-prefix", "cs_full"),
        *("--input", CAPTURED / "simulation" / "full_conversation.test.json"),
        *("--output", tmp_path / "golden.json"),
        *("--metadata", "tenant:cymbal_home_garden", "--no-reference-response"),
    )
    theirs = CAPTURED / "customer_service" / "customer_service_golden.json"
    (made,) = questions(tmp_path)
    assert done.code == 0
    assert content(made) == content(json.loads(theirs.read_bytes())["golden_questions"][0])
    assert re.fullmatch(r"cs_full_[0-9a-f]{8}", made["id"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", made["updated_datetime"])


def test_a_log_becomes_one_question(convert: Spangrade, tmp_path: Path) -> None:
    done = convert(LOG)
    assert done == (0, [f"1 question of 2 turns added to {tmp_path / 'golden.json'}"], [])
    assert list(map(content, questions(tmp_path))) == [
        {
            "user_inputs": ["hi", "my cart?"],
            "agents_evaluated": ["shop"],
            "metadata": {"source_file": "log.json"},
            "reference_data": {
                "reference_tool_interactions": [{"tool_name": "get_cart", "input_arguments": {"id": "1"}}],
                "reference_trajectory": ["shop"],
                "reference_response": "Two bags.",
            },
        }
    ]


@pytest.mark.parametrize(
    "call",
    [
        {"tool_name": "t", "tool_input": {"a": 1}},
        {"name": "t", "args": {"a": 1}},
        {"tool_name": "t", "input_arguments": {"a": 1}},
        {"tool": "t", "arguments": {"a": 1}},
        {"name": "t", "input": {"a": 1}},
        {"name": "t", "parameters": {"a": 1}},
    ],
    ids=lambda call: "+".join(call),
)
def test_every_key_of_a_call_is_understood(convert: Spangrade, tmp_path: Path, call: dict[str, Any]) -> None:
    convert([{"query": "hi", "expected_tool_use": [call]}])
    (made,) = questions(tmp_path)
    assert made["reference_data"]["reference_tool_interactions"] == [
        {"tool_name": "t", "input_arguments": {"a": 1}}
    ]


def test_a_call_without_arguments_expects_none(convert: Spangrade, tmp_path: Path) -> None:
    convert([{"query": "hi", "expected_tool_use": [{"tool_name": "t"}]}])
    (made,) = questions(tmp_path)
    assert made["reference_data"]["reference_tool_interactions"] == [{"tool_name": "t"}]


def test_options_say_the_tags_and_the_beginning_of_the_id(convert: Spangrade, tmp_path: Path) -> None:
    convert(LOG, "--metadata", "tenant:a:b", "--metadata", "source_file:x", "--id-prefix", "q")
    (made,) = questions(tmp_path)
    assert (made["metadata"], made["id"][:2]) == ({"source_file": "x", "tenant": "a:b"}, "q_")


def test_what_a_golden_file_has_is_kept(convert: Spangrade, tmp_path: Path) -> None:
    mine = {"id": "q1", "user_inputs": ["ä"], "agents_evaluated": ["a"], "reference_data": {"tone": "kind"}}
    file = tmp_path / "golden.json"
    file.write_text(json.dumps({"owner": "me", "golden_questions": [mine]}), encoding="utf-8")
    assert convert(LOG).code == 0
    kept = json.loads(file.read_text(encoding="utf-8"))
    assert (kept["owner"], kept["golden_questions"][0], len(kept["golden_questions"])) == ("me", mine, 2)


def test_an_empty_golden_file_is_filled(convert: Spangrade, tmp_path: Path) -> None:
    (tmp_path / "golden.json").write_text('{"golden_questions": []}')
    assert (convert(LOG).code, len(questions(tmp_path))) == (0, 1)


def test_the_same_log_again_gets_an_id_of_its_own_and_a_warning(convert: Spangrade, tmp_path: Path) -> None:
    convert(LOG)
    done = convert(LOG)
    first, second = questions(tmp_path)
    assert content(first) == content(second)
    assert first["id"] != second["id"]
    where = f'spangrade: {tmp_path / "golden.json"}: id "{second["id"]}"'
    assert done.err == [f'{where}: has the same user inputs as "{first["id"]}"; a session may answer either']
    assert done.code == 0


def test_an_id_depends_on_the_content_alone_and_avoids_those_taken() -> None:
    first = free_id("q", {"a": 1, "b": 2}, ())
    assert first == free_id("q", {"b": 2, "a": 1}, ())
    assert free_id("q", {"a": 1, "b": 2}, (first,)) not in (first, free_id("q", {"a": 1}, ()))


@pytest.mark.parametrize(
    "text",
    [
        '{"eval_cases": []}',
        '{"golden_questions": [{"id": "q1"}]}',
        "[1, 2]",
        "a,b\n1,2\n",
        "",
    ],
    ids=["another object", "a broken dataset", "a list", "a CSV", "an empty file"],
)
def test_a_file_that_is_not_a_golden_dataset_is_left_unchanged(
    convert: Spangrade, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "golden.json"
    file.write_text(text)
    done = convert(LOG)
    assert (done.code, done.out, file.read_text()) == (2, [], text)
    assert str(file) in done.err[0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["golden.json", "log.json"]


def test_what_cannot_be_used_is_named_and_the_rest_converted(convert: Spangrade, tmp_path: Path) -> None:
    log = [
        {"query": "hi", "expected_tool_use": {"name": "t"}},
        "hi",
        {"reference": "no query"},
        {"query": 5},
        {"query": "bye", "reference": 7, "expected_tool_use": [{"args": {}}, {"name": "t", "args": "x"}]},
        {"query": "end", "expected_tool_use": [{"name": "t"}]},
    ]
    done = convert(log)
    at = f"spangrade: {tmp_path / 'log.json'}: "
    assert done == (
        2,
        [f"1 question of 3 turns added to {tmp_path / 'golden.json'}; 7 left out"],
        [
            f"{at}[0].expected_tool_use: not a list of calls",
            f'{at}[1]: not an object; expected one with "query"',
            f"{at}[2].query: missing",
            f"{at}[3].query: not a text; the turn is left out",
            f"{at}[4].expected_tool_use[0]: no tool name; expected a text under tool_name",
            f"{at}[4].expected_tool_use[1]: the arguments of t are not an object",
            f"{at}[4].reference: not a text",
        ],
    )
    (made,) = questions(tmp_path)
    assert made["user_inputs"] == ["hi", "bye", "end"]
    assert made["reference_data"]["reference_tool_interactions"] == [{"tool_name": "t"}]


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ({"query": "hi"}, 'not a list; expected a list of turns, each an object with "query"'),
        ([], 'no turn with a "query"; nothing to convert'),
    ],
)
def test_a_file_that_is_not_a_log_is_refused(
    convert: Spangrade, tmp_path: Path, log: Any, message: str
) -> None:
    done = convert(log)
    assert done == (2, [], [f"spangrade: {tmp_path / 'log.json'}: {message}"])
    assert not (tmp_path / "golden.json").exists()


def test_a_tag_without_a_colon_is_refused(convert: Spangrade) -> None:
    assert convert(LOG, "--metadata", "tenant") == (
        2,
        [],
        ['spangrade: --metadata "tenant": expected key:value'],
    )


def test_a_write_that_fails_leaves_the_file_and_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "golden.json"
    file.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_text(file, "new \ud800")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_text(tmp_path / "folder", "new")
    assert (file.read_text(), sorted(p.name for p in tmp_path.iterdir())) == (
        "old",
        ["folder", "golden.json"],
    )


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    write_text(tmp_path / "link.json", "new")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == "new"


def test_the_script_does_what_the_command_does(convert: Spangrade, tmp_path: Path) -> None:
    convert(LOG, "--metadata", "k:v")
    files = ("--input", tmp_path / "log.json", "--output", tmp_path / "script.json")
    options = ("--agent", "shop", "--metadata", "k:v")
    script = subprocess.run(
        [sys.executable, "converters/convert_test_to_golden.py", *files, *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (script.returncode, script.stderr) == (0, "")
    assert json.loads((tmp_path / "script.json").read_bytes())["golden_questions"] == questions(tmp_path)


def test_messages_with_roles_are_joined_to_turns_and_may_open_with_the_agent(
    spangrade: Spangrade, tmp_path: Path
) -> None:
    function = {"name": "get_cart", "arguments": '{"customer_id": "123"}'}
    log = [
        {"role": "assistant", "content": "Welcome!"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": function}]},
        {"role": "tool", "content": "[]"},
        {"role": "assistant", "content": "Your cart is empty."},
        {"role": "user", "parts": [{"text": "bye"}]},
        {"role": "model", "parts": [{"text": "Good"}, {"text": "bye."}]},
    ]
    (tmp_path / "log.json").write_text(json.dumps(log))
    out = tmp_path / "golden.json"
    done = spangrade("convert_test_to_golden.py", "-i", tmp_path / "log.json", "-o", out, "-a", "shop")
    at = f"spangrade: {tmp_path / 'log.json'}: "
    assert (done.code, done.err) == (
        0,
        [
            f"{at}[0]: the conversation opens with the agent: this message is left out",
            f'{at}[3]: "tool" is not a role of a turn; expected user or assistant: it is left out',
        ],
    )
    (made,) = json.loads(out.read_bytes())["golden_questions"]
    assert (made["user_inputs"], made["reference_data"]) == (
        ["hi", "bye"],
        {
            "reference_tool_interactions": [
                {"tool_name": "get_cart", "input_arguments": {"customer_id": "123"}}
            ],
            "reference_trajectory": ["shop"],
            "reference_response": "Goodbye.",
        },
    )
