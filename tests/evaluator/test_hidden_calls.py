"""The matrix of hidden calls at the doors that need no framework: no cell is a pass, and its mirror."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hidden_calls import (
    BUS,
    GATES,
    MESSAGES,
    NONE,
    SPANS,
    WAYS,
    act,
    bus,
    driven,
    messages,
    not_passed,
    otlp,
    passes,
    verdicts,
)
from paths import ROOT
from served_agents import json_answer, served

import spangrade
from spangrade import ChatAgent, HttpAgent
from spangrade.evaluator.conversation_runner import ConversationRunner
from spangrade.evaluator.turn import AgentTurn, ToolCall, UserTurn


def function(way: str) -> Any:
    def answer(text: str) -> str:
        act(text, way)
        return "ok"

    return answer


def coroutine(way: str) -> Any:
    async def answer(text: str) -> str:
        await asyncio.to_thread(act, text, way)
        return "ok"

    return answer


def in_the_loop(way: str) -> Any:
    async def answer(text: str) -> str:
        act(text, way)
        return "ok"

    return answer


def of_class(way: str) -> Any:
    class Agent:
        def __call__(self, text: str) -> str:
            act(text, way)
            return "ok"

    return Agent


IN_PROCESS: dict[str, Callable[[str], Any]] = {
    "function": function,
    "async": coroutine,
    "class": of_class,
    "async in the loop": in_the_loop,
}
# A stream's cells take more than a second of CPU; the short form has other ways at the same doors.
HIDING = [
    pytest.param(way, marks=[pytest.mark.exhaustive] if "stream" in way else [])
    for way in WAYS
    if way != NONE
]


@pytest.fixture
def db(tmp_path: Path) -> spangrade.Database:
    return spangrade.open(tmp_path / "spangrade.duckdb")


@pytest.mark.parametrize("way", HIDING)
@pytest.mark.parametrize("door", IN_PROCESS)
@pytest.mark.short_form("door", 4)
@pytest.mark.short_form("way", 6)
def test_matrix_of_agents_in_this_process(db: spangrade.Database, door: str, way: str) -> None:
    found = driven(db, IN_PROCESS[door](way))
    assert passes(found) == [], found


@pytest.mark.parametrize("door", IN_PROCESS)
@pytest.mark.short_form("door", 4)
def test_mirror_of_agents_in_this_process(db: spangrade.Database, door: str) -> None:
    assert not_passed(driven(db, IN_PROCESS[door](NONE))) == {}


def held(db: Path, way: str) -> dict[str, str]:
    """Hold each conversation in a test; return why those failed that expect an exact list of calls."""
    failed = {}
    for name, gate in GATES.items():
        expected = [ToolCall("look", {"x": 1})] if gate.looks else []
        turns = [UserTurn(name), AgentTurn("ok", expected)]
        try:
            ConversationRunner(function(way), turns, store=db).run_sync()
        except AssertionError as error:
            failed[name] = str(error)
    return failed


@pytest.mark.parametrize("way", HIDING)
@pytest.mark.short_form("way", 9)
def test_matrix_of_the_runner_of_tests(tmp_path: Path, way: str) -> None:
    path = tmp_path / "spangrade.duckdb"
    assert held(path, way).keys() == GATES.keys()
    found = verdicts(spangrade.open(path), None)
    assert passes(found) == [], found


@pytest.mark.exhaustive
def test_mirror_of_the_runner_of_tests(tmp_path: Path) -> None:
    path = tmp_path / "spangrade.duckdb"
    assert held(path, NONE) == {}
    assert not_passed(verdicts(spangrade.open(path), None)) == {}


TESTS = """
import pytest
from hidden_calls import GATES, act
from spangrade.evaluator.turn import AgentTurn, ToolCall, UserTurn

@pytest.mark.parametrize("gate", GATES)
def test_gate(conversation, gate):
    def answer(text):
        act(text, {way!r})
        return "ok"

    expected = [ToolCall("look", {{"x": 1}})] if GATES[gate].looks else []
    conversation(answer, [UserTurn(gate), AgentTurn("ok", expected)]).run_sync()
"""


def asked_by_pytest(folder: Path, way: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """Run pytest on a test for each gate; return how many failed, and the verdicts on what is stored."""
    (folder / "test_it.py").write_text(TESTS.format(way=way))
    command = [sys.executable, "-m", "pytest", "test_it.py", "--spangrade-db", "spangrade.duckdb", "-q"]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT / "src")])}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=paths, check=False)
    failed = re.search(r"^(\d+) failed", done.stdout, re.MULTILINE)
    found = verdicts(spangrade.open(folder / "spangrade.duckdb"), None)
    return int(failed[1]) if failed else 0, found


@pytest.mark.exhaustive
@pytest.mark.parametrize("way", HIDING)
def test_matrix_of_pytest(tmp_path: Path, way: str) -> None:
    failed, found = asked_by_pytest(tmp_path, way)
    assert (failed, passes(found)) == (len(GATES), []), found


@pytest.mark.exhaustive
def test_mirror_of_pytest(tmp_path: Path) -> None:
    failed, found = asked_by_pytest(tmp_path, NONE)
    assert (failed, not_passed(found)) == (0, {})


# What a server answers beside the text, to hide a call of a tool; `calls` are those that it lists.
ANSWERS: dict[str, Callable[[list[Any], str], dict[str, Any]]] = {
    "no list": lambda calls, tool: {},
    "null": lambda calls, tool: {"tool_calls": None},
    "another word": lambda calls, tool: {"toolCalls": [*calls, {"name": tool, "arguments": {"x": 666}}]},
    "beside the list": lambda calls, tool: {
        "tool_calls": calls,
        "steps": [{"tool": tool, "tool_input": {"x": 666}}],
    },
    "in the list": lambda calls, tool: {"tool_calls": [*calls, {"name": tool, "arguments": {"x": 666}}]},
}
# Where calls of the visible tool cannot be told from the hidden ones: an answer lists names once.
UNDECLARED = "an answer has no declarations of tools, so that this gate is inconclusive by rule 13"
OF_ANSWERS = [name for name in GATES if name != "declared"]


def calls_of(gate: str) -> list[Any]:
    return [{"name": "look", "arguments": {"x": 1}, "result": "seen"}] if GATES[gate].looks else []


@pytest.mark.parametrize("way", ANSWERS)
@pytest.mark.short_form("way", 6)
def test_matrix_of_answers(db: spangrade.Database, way: str) -> None:
    def answer(text: str) -> dict[str, Any]:
        return {"text": "ok", **ANSWERS[way](calls_of(text), GATES[text].hidden)}

    found = driven(db, answer)
    assert passes(found) == [], found


@pytest.mark.parametrize("way", ANSWERS)
@pytest.mark.short_form("way", 6)
def test_matrix_over_http(db: spangrade.Database, way: str) -> None:
    def respond(path: str, headers: Any, body: Any) -> Any:
        gate = body["text"]
        return json_answer({"text": "ok", **ANSWERS[way](calls_of(gate), GATES[gate].hidden)})

    with served(respond) as url:
        found = driven(db, HttpAgent(url))
    assert passes(found) == [], found


@pytest.mark.exhaustive
def test_mirror_over_http(db: spangrade.Database) -> None:
    def respond(path: str, headers: Any, body: Any) -> Any:
        return json_answer({"text": "ok", "tool_calls": calls_of(body["text"])})

    with served(respond) as url:
        found = driven(db, HttpAgent(url))
    assert not_passed(found).keys() == {"declared"}, UNDECLARED


def completion(**message: Any) -> Any:
    return json_answer({"choices": [{"message": {"role": "assistant", "content": "ok", **message}}]})


# What a chat completion has, to hide a call.
COMPLETIONS: dict[str, Callable[[str], dict[str, Any]]] = {
    "no list": lambda tool: {},
    "null": lambda tool: {"tool_calls": None},
    "requested": lambda tool: {
        "tool_calls": [
            {"id": name, "type": "function", "function": {"name": name.rstrip("2"), "arguments": "{}"}}
            for name in ("look", f"{tool}2")
        ]
    },
    "the earlier form": lambda tool: {"tool_calls": [], "function_call": {"name": tool, "arguments": "{}"}},
    "another word": lambda tool: {"tool_calls": [], "tool_uses": [{"name": tool}]},
}


@pytest.mark.parametrize("way", COMPLETIONS)
@pytest.mark.short_form("way", 6)
def test_matrix_of_chat_completions(db: spangrade.Database, way: str) -> None:
    def respond(path: str, headers: Any, body: Any) -> Any:
        return completion(**COMPLETIONS[way](GATES[body["messages"][-1]["content"]].hidden))

    with served(respond) as url:
        found = driven(db, ChatAgent(url, "m"))
    assert passes(found) == [], found


def test_mirror_of_chat_completions(db: spangrade.Database) -> None:
    """What a model requests may not have run: gates that expect `look` cannot be met at this door."""
    with served(lambda *asked: completion(tool_calls=[])) as url:
        found = driven(db, ChatAgent(url, "m"), ["forbidden", "at most", "before", "no calls"])
    assert not_passed(found) == {}


def imported(db: spangrade.Database, folder: Path, *documents: Any) -> None:
    """Import documents, each of which is a line of a file."""
    file = folder / "documents.jsonl"
    file.write_text("".join(f"{json.dumps(one)}\n" for one in documents))
    db.import_files([file])


@pytest.mark.parametrize("way", [way for way in SPANS if way != NONE])
@pytest.mark.short_form("way", 9)
def test_matrix_of_imported_spans(db: spangrade.Database, tmp_path: Path, way: str) -> None:
    imported(db, tmp_path, otlp(way))
    found = verdicts(db, None)
    assert passes(found) == [], found


def test_mirror_of_imported_spans(db: spangrade.Database, tmp_path: Path) -> None:
    imported(db, tmp_path, otlp(NONE))
    assert not_passed(verdicts(db, None)) == {}


OF_BUSES = [name for name in GATES if name != "declared"]  # the bus has no declarations of tools


@pytest.mark.parametrize("way", [way for way in BUS if way != NONE])
@pytest.mark.short_form("way", 6)
def test_matrix_of_the_messages_of_a_bus(db: spangrade.Database, tmp_path: Path, way: str) -> None:
    imported(db, tmp_path, bus(way))
    found = verdicts(db, None, OF_BUSES)
    assert passes(found) == [], found


def test_mirror_of_the_messages_of_a_bus(db: spangrade.Database, tmp_path: Path) -> None:
    imported(db, tmp_path, bus(NONE))
    assert not_passed(verdicts(db, None, OF_BUSES)) == {}


@pytest.mark.parametrize("way", [way for way in MESSAGES if way != NONE])
@pytest.mark.short_form("way", 4)
def test_matrix_of_imported_messages(db: spangrade.Database, tmp_path: Path, way: str) -> None:
    imported(db, tmp_path, *messages(way))
    found = verdicts(db, None, OF_MESSAGES)
    assert passes(found) == [], found


def test_mirror_of_imported_messages(db: spangrade.Database, tmp_path: Path) -> None:
    imported(db, tmp_path, *messages(NONE))
    found = verdicts(db, None, OF_MESSAGES)
    assert not_passed(found).keys() == {"trajectory"}  # whether a name is an agent's is not recorded


OF_MESSAGES = [name for name in GATES if name != "declared"]  # messages have no declarations of tools
