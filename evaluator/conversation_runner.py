"""Hold an expected conversation with an agent, and check each answer."""

from __future__ import annotations

import asyncio
import shlex
import uuid
from collections.abc import Sequence
from pathlib import Path

from spangrade.evaluator.conversation.agents import Answer, converse
from spangrade.evaluator.conversation.capture import captured_turn, keep
from spangrade.evaluator.conversation.observed import ObservedTurn, observed_turn
from spangrade.evaluator.conversation.turn_similarity import is_similar_turn
from spangrade.evaluator.judge import Judge
from spangrade.evaluator.similarity_utils import Similarity
from spangrade.evaluator.turn import AgentTurn, Conversation, Turn, UserTurn, check_conversation
from spangrade.tracer.span import Span


class ConversationMismatch(AssertionError):  # noqa: N818 (a failed assertion, not an error of the run)
    """An answer differs from the expected one.

    `turn` is the expected turn's number, from 1; `similarity` holds the differences. `conversation_id` is
    the id of the session, if the run was stored.
    """

    def __init__(self, message: str, *, turn: int, similarity: Similarity, conversation_id: str) -> None:
        super().__init__(message)
        self.turn = turn
        self.similarity = similarity
        self.conversation_id = conversation_id


class ConversationRunner:
    """An expected conversation to hold with an agent; each `run` is a new conversation.

    The agent is a callable (sync, async or a generator) that takes the user's text, the `history` or the
    `messages`; an object with `process_context`; a Google ADK runner; a pydantic-ai agent; a LangGraph
    graph; or a kind of agent that an adapter of the entry points `spangrade.agents` supports.

    With `extra_keys`, arguments and results may have keys that the expected ones do not have. Tool calls are
    expected in the order given, unless `any_order`. Without `judge`, the judge of the environment is asked.
    `store` is the database to keep the spans in; `name` is the beginning of the conversation's id.

    Raises:
        InputError: the turns do not alternate, begin with the agent or end with the user.
    """

    def __init__(
        self,
        agent: object,
        expected_conversation: Conversation | Sequence[Turn],
        *,
        initial_agent_message: str | None = None,
        judge: Judge | None = None,
        extra_keys: bool = False,
        any_order: bool = False,
        store: str | Path | None = None,
        name: str = "conversation",
    ) -> None:
        if not isinstance(expected_conversation, Conversation):
            expected_conversation = Conversation(list(expected_conversation))
        check_conversation(expected_conversation.turns, name)
        self._agent = agent
        self._expected = expected_conversation
        self._opening = initial_agent_message or expected_conversation.initial_agent_message
        self._judge = judge
        self._extra_keys = extra_keys
        self._any_order = any_order
        self._store = store
        self._name = name

    async def run(self) -> list[Turn]:
        """Hold the conversation and return its turns; the agent's have the tools that it called.

        Raises:
            ConversationMismatch: an answer is not as expected; the conversation ends there.
            InputError: no adapter supports this kind of agent.
            JudgeUnavailable: a judge is needed, and there is no key.
            JudgeError: the judge broke.
            StoreError: the spans cannot be stored.
        """
        __tracebackhide__ = True
        conversation_id = f"{self._name}-{uuid.uuid4().hex[:8]}"
        spans: list[Span] = []
        try:
            return await self._hold(conversation_id, spans)
        finally:
            if self._store is not None:
                await asyncio.to_thread(keep, spans, self._store)

    async def _hold(self, conversation_id: str, spans: list[Span]) -> list[Turn]:
        __tracebackhide__ = True
        answer = converse(self._agent, conversation_id)
        history: list[Turn] = [] if self._opening is None else [AgentTurn(self._opening)]
        for number, turn in enumerate(self._expected.turns, 1):
            if isinstance(turn, UserTurn):
                try:
                    actual = await self._take_turn(answer, turn, history, conversation_id, spans)
                except Exception as error:
                    error.add_note(f"in answer to turn {number} of {self._name}: {turn.text!r}")
                    raise
                history += [turn, actual.as_agent_turn()]
                continue
            similarity = await is_similar_turn(
                actual,
                turn,
                path=f"turn {number}",
                extra_keys=self._extra_keys,
                any_order=self._any_order,
                judge=self._judge,
            )
            if not similarity:
                message = self._message(number, history[-2:], similarity, conversation_id)
                raise ConversationMismatch(
                    message, turn=number, similarity=similarity, conversation_id=conversation_id
                )
        return history

    async def _take_turn(
        self,
        answer: Answer,
        turn: UserTurn,
        history: Sequence[Turn],
        conversation_id: str,
        spans: list[Span],
    ) -> ObservedTurn:
        with captured_turn(conversation_id, turn.text, spans) as captured:
            reply = await answer(turn.text, history)
            actual = observed_turn(captured.spans(), reply)
            if actual.text is not None:
                captured.root.respond(actual.text)
        return actual

    def _message(
        self, number: int, last_turns: Sequence[Turn], similarity: Similarity, conversation_id: str
    ) -> str:
        note = self._expected.turns[number - 1].test_note or self._expected.test_note
        lines = [f"the agent's answer is not as expected{f' ({note})' if note else ''}"]
        for turn in last_turns:
            calls = turn.tool_calls if isinstance(turn, AgentTurn) else None
            lines += [f"  called {call.name}: {call.arguments!r} -> {call.result!r}" for call in calls or ()]
            lines.append(f"  {'user' if isinstance(turn, UserTurn) else 'agent'}: {turn.text}")
        lines.append(str(similarity))
        if self._store is not None:
            lines.append(shlex.join(["spangrade", "show", conversation_id, "--db", str(self._store)]))
        return "\n".join(lines)
