"""Hold an expected conversation with an agent, and check each answer."""

from __future__ import annotations

import asyncio
import contextvars
import re
import shlex
import sys
import uuid
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from spangrade import tracer
from spangrade.converters.datasets.call_rules import Rule
from spangrade.converters.spans.registry import observe
from spangrade.converters.spans.vendor import Vendor
from spangrade.evaluator.agents.adapters import Answer
from spangrade.evaluator.agents.capture import keep
from spangrade.evaluator.agents.current_test import BegunConversation, current_test
from spangrade.evaluator.agents.drive import Driver
from spangrade.evaluator.agents.exchange import Exchange, ObservedCall
from spangrade.evaluator.agents.in_time import in_thread
from spangrade.evaluator.agents.turn_similarity import is_similar_turn
from spangrade.evaluator.derive.origin import origin_tag
from spangrade.evaluator.derive.settings import Configured
from spangrade.evaluator.judge import Judge
from spangrade.evaluator.similarity_utils import Similarity, is_pattern
from spangrade.evaluator.turn import AgentTurn, Conversation, Turn, UserTurn, check_conversation
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.errors import InputError, text_of
from spangrade.tracer.base.settings import load_settings
from spangrade.tracer.redaction import redaction
from spangrade.tracer.span import Span

_DOOR = "spangrade.evaluator.conversation_runner"  # where its names are imported from
_DEFAULT_NAME = "conversation"
_ENDS_THE_TESTS = (KeyboardInterrupt, SystemExit, asyncio.CancelledError)  # or the loop that they run in
_OTHER_LOOP = re.compile(r"different (event )?loop")  # asyncio's words for an object of another loop


class ConversationMismatch(AssertionError):  # noqa: N818 (a failed assertion, not an error of the run)
    """An answer differs from the expected one.

    `turn` is the expected turn's number, from 1; `similarity` holds the differences. `conversation_id` is
    the id of the session, if the run was stored.
    """

    __module__ = _DOOR

    def __init__(self, message: str, *, turn: int, similarity: Similarity, conversation_id: str) -> None:
        super().__init__(message)
        self.turn = turn
        self.similarity = similarity
        self.conversation_id = conversation_id


class RuleBroken(AssertionError):  # noqa: N818 (a failed assertion, not an error of the run)
    """A conversation breaks a rule of the settings, or its spans do not show whether it does.

    `rule` is its name; `conversation_id` is the id of the session, if the run was stored.
    """

    __module__ = _DOOR

    def __init__(self, message: str, *, rule: str, conversation_id: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.conversation_id = conversation_id


class _Session(NamedTuple):
    """One run of a conversation: its id, the place of its spans, the spans, and the settings."""

    name: str
    id: str
    store: str | Path | None
    spans: list[Span]
    dialects: Sequence[Vendor]
    rules: Sequence[Rule]
    driver: Driver

    @property
    def is_recorded(self) -> bool:
        """Whether all that is known of the conversation is to be in its spans."""
        return self.store is not None or bool(self.rules)


class _Compared(NamedTuple):
    """A turn that was compared: its number, what was expected and what was seen, its place in the history."""

    number: int
    expected: AgentTurn
    actual: Exchange
    place: int
    similarity: Similarity


class ConversationRunner:
    """An expected conversation to hold with an agent; each `run` is a new conversation.

    The agent is a callable (sync, async or a generator) that takes the user's text, the `history` or the
    `messages`; an object with `process_context`; a Google ADK runner; a pydantic-ai agent; a LangGraph
    graph; or a kind of agent that an adapter of the entry points `spangrade.agents` supports.

    With `extra_keys`, arguments and results may have keys that the expected ones do not have. Tool calls are
    expected in the order given, unless `any_order`. Without `judge`, the judge of the environment is asked.
    `reasoning_node` is another name of `agent`; `test_note` is shown when a turn fails, as that of the
    conversation is. `store` is the database to keep the spans in, `name` the beginning of the conversation's
    id; under pytest they are by default the database of `--spangrade-db` and the id of the test.

    If the first expected turn is the agent's, the agent opens the conversation with its text, or with
    `initial_agent_message`, which is then compared with it.

    Raises:
        InputError: no agent is given, or two; the turns do not alternate or end with the user; or the opening
            turn is a pattern.
    """

    __module__ = _DOOR

    def __init__(
        self,
        agent: object = None,
        expected_conversation: Conversation | Sequence[Turn] = (),
        *,
        reasoning_node: object = None,
        test_note: str | None = None,
        initial_agent_message: str | None = None,
        judge: Judge | None = None,
        extra_keys: bool = False,
        any_order: bool = False,
        store: str | Path | None = None,
        name: str | None = None,
    ) -> None:
        if (agent is None) == (reasoning_node is None):
            raise InputError("ConversationRunner: expected an agent, once: as agent or as reasoning_node")
        agent = reasoning_node if agent is None else agent
        if not isinstance(expected_conversation, Conversation):
            expected_conversation = Conversation(list(expected_conversation))
        if test_note is not None:
            expected_conversation = replace(expected_conversation, test_note=test_note)
        where = name or _DEFAULT_NAME
        check_conversation(expected_conversation.turns, where)
        self._agent = agent
        self._expected = expected_conversation
        self._opening = _opening(expected_conversation, initial_agent_message, where)
        self._judge = judge
        self._extra_keys = extra_keys
        self._any_order = any_order
        self._store = store
        self._name = name

    def run(self) -> Coroutine[Any, Any, list[Turn]]:
        """Hold the conversation and return its turns; the agent's have the tools that it called.

        The result must be awaited; a test of pytest that does not await it fails.

        Raises (when awaited):
            ConversationMismatch: an answer is not as expected; the conversation ends there.
            RuleBroken: the conversation is as expected, and breaks a rule of the settings.
            InputError: no adapter supports this kind of agent.
            JudgeUnavailable: a judge is needed, and there is no key.
            JudgeError: the judge broke.
            StoreError: the spans cannot be stored.
        """
        return self._begin(sys._getframe(1))

    def run_sync(self) -> list[Turn]:
        """Hold the conversation as `run` does, and return when it is over; nothing is to be awaited.

        If an event loop is running here, the conversation has a loop of its own in another thread, and the
        running one waits. An agent with connections or locks of the running loop must be awaited: use `run`.

        Raises what `run` raises.
        """
        __tracebackhide__ = True
        conversation = self._begin(sys._getframe(1))
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            try:
                return asyncio.run(conversation)
            except (ConversationMismatch, RuleBroken) as mismatch:
                raise mismatch.with_traceback(None) from None  # the lines of asyncio say nothing
        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(contextvars.copy_context().run, asyncio.run, conversation)
            try:
                return running.result()
            except RuntimeError as error:
                if _OTHER_LOOP.search(str(error)):
                    error.add_note(
                        "run_sync() has an event loop of its own, because one is running here, and the agent "
                        "uses an object of that one: write `await runner.run()`"
                    )
                raise

    def _begin(self, caller: FrameType) -> Coroutine[Any, Any, list[Turn]]:
        """Return the conversation to await, and enter it in the test in progress."""
        test = current_test()
        name = self._name or (test.name if test else _DEFAULT_NAME)
        store = self._store or (test.find_store() if test else None)
        from spangrade.evaluator import settings as project  # 30 ms, which an import need not take

        settings = project.load_settings().settings
        dialects = Configured.of(settings).dialects or ()
        rules = [rule for rule in settings.rules if not rule.draft]
        run = BegunConversation(f"{caller.f_code.co_filename}:{caller.f_lineno}")
        options = settings.run.options()
        driver = Driver(self._agent, timeout_s=options.timeout_s, late_s=options.late_s, dialects=dialects)
        session = _Session(name, f"{name}-{uuid.uuid4().hex[:8]}", store, [], dialects, rules, driver)
        run.coroutine = self._run(session, run)
        if store is not None and self._store is None:
            run.session_id, run.expected = session.id, self._expected.turns
        if test:
            test.runs.append(run)
        return run.coroutine

    async def _run(self, session: _Session, run: BegunConversation) -> list[Turn]:
        __tracebackhide__ = True
        try:
            turns = await self._hold(session, run)
            _check_rules(session)
            return turns
        except BaseException as error:
            run.failure = text_of(error)
            if isinstance(error, ConversationMismatch):
                run.failure = str(error.similarity)
            raise
        finally:
            run.ended = True
            run.turn_spans += [span.span_id for span in session.spans if span.parent_span_id is None]
            if session.store is not None:
                redact = redaction(load_settings().settings.redaction.text)
                await in_thread(keep, session.spans, session.store, redact)

    async def _hold(self, session: _Session, run: BegunConversation) -> list[Turn]:
        """Return the turns of the conversation, which ends at the first that is not as expected.

        A turn with calls after its reply is compared again once they are known.
        """
        __tracebackhide__ = True
        history: list[Turn] = [] if self._opening is None else [AgentTurn(self._opening)]
        actual = Exchange(self._opening, None)
        compared: list[_Compared] = []
        answer = session.driver.open(session.id)
        late: list[Span] = []
        try:
            for number, turn in enumerate(self._expected.turns, 1):
                if isinstance(turn, UserTurn):
                    actual = await self._take_turn(answer, number, turn, history, session)
                    run.calls += ((call.name, _arguments(call)) for call in actual.calls or ())
                    history += [turn, actual.as_agent_turn()]
                    continue
                similarity = await self._compare(number, turn, actual)
                compared.append(_Compared(number, turn, actual, len(history) - 1, similarity))
                if not similarity:
                    break
            late = await session.driver.end()
        finally:
            session.spans.extend(late or session.driver.give_up())
        for number, turn, actual, place, similarity in compared:
            of_turn = [span for span in session.spans if span.trace_id == actual.trace_id]
            whole = actual.completed(of_turn, session.dialects) if of_turn else actual
            if whole != actual:
                similarity = await self._compare(number, turn, whole)
                history[place] = whole.as_agent_turn()
            if not similarity:
                message = self._message(number, history[max(place - 1, 0) : place + 1], similarity, session)
                raise ConversationMismatch(
                    message, turn=number, similarity=similarity, conversation_id=session.id
                )
        return history

    async def _take_turn(
        self, answer: Answer, number: int, turn: UserTurn, history: Sequence[Turn], session: _Session
    ) -> Exchange:
        __tracebackhide__ = True
        actual = await session.driver.take_turn(
            answer,
            turn.text,
            history,
            tracer.session(session.id, tags=origin_tag("test")),
            session.spans,
            is_stored=session.is_recorded,
        )
        if (error := actual.error) is None:
            return actual
        if not _is_readable(error):  # pytest could not print it, nor go on
            raise RuntimeError(f"the agent raised {actual.failure}")
        error.add_note(f"in answer to turn {number} of {session.name}: {turn.text!r}")
        if isinstance(error, _ENDS_THE_TESTS):
            raise RuntimeError(f"the agent raised {actual.failure}") from error
        raise error

    async def _compare(self, number: int, expected: AgentTurn, actual: Exchange) -> Similarity:
        return await is_similar_turn(
            actual,
            expected,
            path=f"turn {number}",
            extra_keys=self._extra_keys,
            any_order=self._any_order,
            judge=self._judge,
        )

    def _message(
        self, number: int, last_turns: Sequence[Turn], similarity: Similarity, session: _Session
    ) -> str:
        note = self._expected.turns[number - 1].test_note or self._expected.test_note
        lines = [f"the agent's answer is not as expected{f' ({note})' if note else ''}"]
        for turn in last_turns:
            calls = turn.tool_calls if isinstance(turn, AgentTurn) else None
            lines += [f"  called {call.name}: {call.arguments!r} -> {call.result!r}" for call in calls or ()]
            lines.append(f"  {'user' if isinstance(turn, UserTurn) else 'agent'}: {turn.text}")
        lines.append(str(similarity))
        return "\n".join([*lines, *_show(session)])


def _check_rules(session: _Session) -> None:
    """Raise RuleBroken if a conversation breaks a rule, or if that is not known."""
    __tracebackhide__ = True
    if not session.rules:
        return
    from spangrade.evaluator.derive.build_session import build_session
    from spangrade.evaluator.metrics import Score
    from spangrade.evaluator.metrics.call_rules import broken_by

    held = build_session(session.id, "conversation", observe(session.spans, {}, session.dialects))
    for rule in session.rules:
        outcome = broken_by(held, rule=rule)
        if isinstance(outcome, Score) and not outcome.value:
            continue
        broken = (
            "the agent breaks" if isinstance(outcome, Score) else "it is not known whether the agent keeps to"
        )
        message = "\n".join([f"{broken} the rule {rule.name}: {outcome.reason}", *_show(session)])
        raise RuleBroken(message, rule=rule.name, conversation_id=session.id)


def _show(session: _Session) -> list[str]:
    """Return the command that shows a session that is stored."""
    if session.store is None:
        return []
    return [shlex.join(["spangrade", "show", session.id, "--db", str(session.store)])]


def _is_readable(error: BaseException) -> bool:
    """Return whether the name and the bases of an exception's class can be read."""
    try:
        return bool(type(error).__name__) and isinstance(error, BaseException)
    except BaseException:  # noqa: BLE001 (third-party code: of the exception's class)
        return False


def _arguments(call: ObservedCall) -> str:
    """Return the arguments of a call as JSON; empty if they are not known."""
    return dumps(call.arguments) if call.arguments_known else ""


def _opening(conversation: Conversation, message: str | None, where: str) -> str | None:
    """Return the text with which the agent opens the conversation, None if the user does."""
    message = message or conversation.initial_agent_message
    first = conversation.turns[0]
    if not isinstance(first, AgentTurn):
        return message
    if first.tool_calls is not None:
        raise InputError(
            f"{where}: turn 1 has tool_calls, but the agent does not run before the user's first message"
        )
    texts = [first.text] if isinstance(first.text, str) else first.text
    if message is None:
        message = next((text for text in texts if not is_pattern(text)), None)
    if message is None:
        raise InputError(
            f"{where}: turn 1 is a pattern, {first.text!r}; pass the agent's opening as initial_agent_message"
        )
    return message
