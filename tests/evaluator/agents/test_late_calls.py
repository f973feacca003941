"""What an agent calls after its reply, outside its turn's context, or in another process."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import spangrade
from spangrade import RunOptions
from spangrade.evaluator.agents.exchange import Exchange
from spangrade.evaluator.conversation_runner import ConversationMismatch, ConversationRunner
from spangrade.evaluator.judge.protocol import Judgement
from spangrade.evaluator.turn import AgentTurn, ToolCall, Turn, UserTurn

LOOK = [ToolCall("look", {"x": 1})]
PROVIDER = TracerProvider()


@spangrade.tool
def look(x: int = 1) -> str:
    return "seen"


@spangrade.tool
def rm(x: int = 1) -> str:
    return "gone"


def agent(does: Callable[[], object]) -> Callable[[str], str]:
    """Return an agent that looks and, in the turn `one`, does something."""

    def answer(text: str) -> str:
        with spangrade.agent("bot"):
            look(1)
            if text == "one":
                does()
        return "ok"

    return answer


def held(answer: Any, *turns: Turn, **options: Any) -> str:
    """Return why a test of a conversation fails; empty if it passes."""
    try:
        ConversationRunner(answer, turns, **options).run_sync()
    except ConversationMismatch as error:
        return str(error.similarity)
    return ""


ONE = (UserTurn("one"), AgentTurn("ok", LOOK))
TWO = (*ONE, UserTurn("two"), AgentTurn("ok", LOOK))


def in_context(function: Callable[[], object], after: threading.Event | None = None) -> threading.Thread:
    """Call a function in a thread with the context of the turn, once an event is set."""

    def call() -> None:
        (after or threading.Event()).wait(None if after else 0.1)
        function()

    thread = threading.Thread(target=contextvars.copy_context().run, args=(call,))
    thread.start()
    return thread


def without_context(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_a_call_after_the_last_reply_is_a_call_of_the_turn() -> None:
    assert "rm" in held(agent(lambda: in_context(rm)), *ONE)


def test_a_call_between_two_turns_is_a_call_of_the_first() -> None:
    late: list[threading.Thread] = []
    reply_is_there = threading.Event()

    class Judge:
        name = "own"

        async def ask(self, question: Any) -> Judgement:
            """Say yes, between the turns, once the agent has called what it does there."""
            reply_is_there.set()
            late[0].join()
            return Judgement(True, None, "")

    first = agent(lambda: late.append(in_context(rm, reply_is_there)))
    turns = (UserTurn("one"), AgentTurn("it is fine", LOOK), UserTurn("two"), AgentTurn("ok", LOOK))
    found = held(first, *turns, judge=Judge())
    assert not late[0].is_alive()
    assert found.startswith("turn 2.tool_calls")
    assert "rm" in found


def test_a_call_that_ends_after_the_reply_meets_what_is_expected() -> None:
    def answer(text: str) -> str:
        with spangrade.agent("bot"):
            in_context(look)
        return "ok"

    assert held(answer, UserTurn("one"), AgentTurn("ok", [ToolCall("look")])) == ""


async def test_a_task_and_a_timer_after_the_reply_are_awaited() -> None:
    async def task(text: str) -> str:
        async def later() -> None:
            await asyncio.sleep(0.1)
            rm()

        look(1)
        tasks.append(asyncio.create_task(later()))
        return "ok"

    async def timer(text: str) -> str:
        look(1)
        asyncio.get_running_loop().call_later(0.1, rm)
        return "ok"

    tasks: list[asyncio.Task[None]] = []
    for answer in (task, timer):
        with pytest.raises(ConversationMismatch, match="rm"):
            await ConversationRunner(answer, ONE).run()


async def test_what_a_pool_of_threads_still_does_is_awaited() -> None:
    def answer(text: str) -> str:
        look(1)
        pool.submit(contextvars.copy_context().run, lambda: (time.sleep(0.1), rm()))
        return "ok"

    with ThreadPoolExecutor(1) as pool, pytest.raises(ConversationMismatch, match="rm"):
        await ConversationRunner(answer, ONE).run()


def test_nothing_is_awaited_where_nothing_may_call() -> None:
    """In a process of its own: threads that other tests leave might call."""
    script = """
import asyncio
import concurrent.futures
import spangrade
from spangrade.evaluator.agents.drive import Driver

pool = concurrent.futures.ThreadPoolExecutor()

async def with_threads_that_wait_for_work(text):
    await asyncio.to_thread(print, end="")
    await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)
    await asyncio.gather(*[asyncio.wrap_future(pool.submit(print, end="")) for _ in range(3)])
    return "ok"

async def main():
    for agent in (lambda text: "ok", with_threads_that_wait_for_work):
        driver = Driver(agent, timeout_s=60.0, late_s=600.0)
        await driver.take_turn(driver.open("s"), "one", (), spangrade.session("s"), [])
        print(await driver.end())

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n[]\n", "")


def test_a_turn_that_takes_too_long_fails_a_test_as_it_does_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPANGRADE_RUN_TIMEOUT", "0.1s")

    async def answer(text: str) -> str:
        await asyncio.Event().wait()
        return "ok"

    with pytest.raises(Exception, match=r"expected at most 0\.1 s"):
        ConversationRunner(answer, ONE).run_sync()


def verdict(tmp_path: Path, answer: Any, *inputs: str, **references: Any) -> tuple[str, str]:
    """Return the verdict on one session of a run, and the reason."""
    question = {"id": "q", "user_inputs": inputs or ["one"], "agents_evaluated": ["bot"]}
    db = spangrade.open(tmp_path / f"{len(list(tmp_path.iterdir()))}.duckdb")
    run = db.run(answer, [{**question, "reference_data": references}], options=RunOptions(agent_name="bot"))
    (grade,) = run.sessions
    return grade.verdict.value, grade.reason


CALLED = {"tool_name": "look", "input_arguments": {"x": 1}}
# References, and whether a further call of `look`, which the turn calls, could break them.
GATES = {
    "forbidden": ({"forbidden_tools": ["rm"]}, False),
    "at most": ({"at_most": {"look": 1}}, True),
    "at most of another": ({"at_most": {"rm": 0}}, False),
    "no further calls": ({"reference_tool_interactions": [CALLED], "no_further_calls": True}, True),
    "no further calls of another": (
        {"reference_tool_interactions": [CALLED], "no_further_calls": ["rm"]},
        False,
    ),
    "before": ({"before": [["look", "rm"]]}, True),
    "required": ({"reference_tool_interactions": [CALLED]}, False),
    "trajectory": ({"reference_trajectory": ["bot", "look"]}, True),
}


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.short_form("gate", 4)
def test_a_call_outside_of_the_context_leaves_its_own_tool_unknown(tmp_path: Path, gate: str) -> None:
    references, breaks = GATES[gate]
    if gate == "before":
        references = references | {"at_most": {"rm": 1}}
    found, reason = verdict(tmp_path, agent(lambda: without_context(look)), **references)
    assert found == ("inconclusive" if breaks else "passed"), reason
    assert ("called outside the turn's context" in reason) is breaks


def test_in_a_test_a_call_outside_of_the_context_leaves_an_exact_list_unknown() -> None:
    answer = agent(lambda: without_context(look))
    assert "called outside the turn's context" in held(answer, *ONE)
    assert held(answer, UserTurn("one"), AgentTurn("ok", LOOK, other_calls=True)) == ""


def of_another_provider(name: str, **attributes: Any) -> Any:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name} | {
        f"gen_ai.tool.call.{key}": value for key, value in attributes.items()
    }
    return PROVIDER.get_tracer("other").start_as_current_span(f"execute_tool {name}", attributes=attributes)


def recorded_twice(how: str) -> None:
    """Call `rm`, recorded by the process's tracer provider and by another one."""
    own = trace.get_tracer("own")
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "rm"}
    if how == "below":
        with own.start_as_current_span("execute_tool rm", attributes=attributes), of_another_provider("rm"):
            pass
    if how == "above":
        with of_another_provider("rm"), own.start_as_current_span("execute_tool rm", attributes=attributes):
            pass
    if how == "the same id":
        attributes["gen_ai.tool.call.id"] = "c1"
        own.start_span("execute_tool rm", attributes=attributes).end()
        with of_another_provider("rm", id="c1"):
            pass
    if how == "beside":
        own.start_span("execute_tool rm", attributes=attributes).end()
        with of_another_provider("rm"):
            pass
    if how == "twice below":
        with own.start_as_current_span("execute_tool rm", attributes=attributes):
            for _ in range(2):
                of_another_provider("rm").__enter__()


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("below", "passed"),
        ("above", "passed"),
        ("the same id", "passed"),
        ("beside", "inconclusive"),
        ("twice below", "inconclusive"),
    ],
)
@pytest.mark.short_form("how", 3)
def test_a_span_of_another_provider_is_of_the_known_call_with_its_id_or_around_it(
    tmp_path: Path, how: str, expected: str
) -> None:
    found, reason = verdict(tmp_path, agent(lambda: recorded_twice(how)), at_most={"rm": 1})
    assert found == expected, reason


def starts_python() -> None:
    subprocess.run([sys.executable, "-c", "pass"], check=True)


PROCESSES: dict[str, Callable[[], object]] = {
    "subprocess": starts_python,
    "multiprocessing": lambda: get_context("spawn").Process(target=print).start(),
    "shell": lambda: subprocess.run(["/bin/sh", "-c", f"{sys.executable} -c pass"], check=True),
}


@pytest.mark.parametrize("how", PROCESSES)
@pytest.mark.short_form("how", 3)
def test_what_a_process_of_its_own_calls_is_unknown(tmp_path: Path, how: str) -> None:
    found, reason = verdict(tmp_path, agent(PROCESSES[how]), forbidden_tools=["rm"])
    assert (found, "a process of its own" in reason) == ("inconclusive", True)


@pytest.mark.exhaustive
def test_a_process_that_a_tool_starts_or_that_runs_no_python_hides_nothing(tmp_path: Path) -> None:
    its_own = spangrade.tool(starts_python)
    for does in (its_own, lambda: subprocess.run(["true"], check=True)):
        assert verdict(tmp_path, agent(does), forbidden_tools=["rm"]) == ("passed", "")


def test_an_exchange_knows_that_calls_are_there_at_all_beside_those_outside() -> None:
    exchange = Exchange("ok", (), calls_outside=("look",))
    assert exchange.why_calls_unknown(at_all=True) is None
    assert "look" in (exchange.why_calls_unknown() or "")


def test_a_pool_without_the_context_is_outside(tmp_path: Path) -> None:
    def in_pool() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(look, 2).result()

    assert verdict(tmp_path, agent(in_pool), at_most={"look": 1})[0] == "inconclusive"
