"""The users of a run: they say fixed texts, or a model plays them by a scenario."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from math import fsum
from typing import Any

from spangrade.converters.datasets.golden import GoldenQuestion, Persona, Scenario
from spangrade.evaluator.agents.recorded import COMPLETE
from spangrade.evaluator.grading.run_options import RunOptions
from spangrade.evaluator.judge.cache import default_cache_path
from spangrade.evaluator.judge.choice import load_judge
from spangrade.evaluator.judge.prompts import UserAnswer
from spangrade.evaluator.judge.protocol import (
    CostLimit,
    JudgeBudgetExceeded,
    JudgeError,
    Judgement,
    KeyCheck,
    UserQuestion,
)
from spangrade.evaluator.judge.run import JudgeRun
from spangrade.evaluator.session import Session, SimulatedMessage
from spangrade.evaluator.turn import AgentTurn, Turn, UserTurn
from spangrade.tracer import semconv
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.span import Span

_TRIES = 3  # of a model whose answer is not valid
_PERSONAS = {  # those that Google ADK has by name
    "EXPERT": "You know exactly what you want, give every detail that is asked for, and do not chat.",
    "NOVICE": "You do not understand the subject well, rely on the agent, and cannot correct its mistakes.",
    "EVALUATOR": "You want to see whether the agent can do what you want, and do not help it.",
}
_ROLE = """\
Write the user's next message in this conversation, or end it.

What the user wants, in this order:
{plan}

All that the user knows, and may say when it is needed:
{facts}

What the user is like: {persona}

The user ends the conversation, with `ended`, only in these cases:
{ends}

Rules:
- Answer what the agent asks. What is not known above the user does not know, and says so.
- Never make up a name, number, date or other fact. Say one thing at a time.
- Use the user's own words, and never the words of the list of wishes.
- You are the user: never speak for the agent, and never do its work."""
_ENDS = {
    "plan_done": "the agent has done all that the user wants",
    "refused": "the agent has refused for good what the user wants",
    "handed_over": "the agent has handed the user over to a person",
}


class FixedUser:
    """A user that says texts in their order; `is_over` once the last one was said."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = list(texts)
        self.is_over = False

    async def next_text(self, history: Sequence[Turn]) -> str | None:  # noqa: ARG002 (as of a simulated user)
        """Return the next text, None after the last one."""
        if not self._texts:
            return None
        text = self._texts.pop(0)
        self.is_over = not self._texts
        return text


class SimulatedUser:
    """A user that a model plays by a scenario, one call for each turn.

    What it says and decides is given to `record` as spans of a scope of their own: they are never the
    agent's. The last of them, with which the user ends the conversation, has the tag of a complete session.
    """

    is_over = False  # only the next call tells

    def __init__(
        self,
        model: JudgeRun,
        question: GoldenQuestion,
        seed: int,
        session_id: str,
        tags: Sequence[str],
        record: Callable[[Span], None],
        replayed: Session | None = None,
    ) -> None:
        if question.scenario is None:
            raise ValueError(f"{question.id} has no scenario")
        self._model = model
        self._scenario = question.scenario
        self._role = role(question.scenario)
        self._seed = seed
        self._attributes = {semconv.CONVERSATION_ID: session_id, semconv.QUESTION_ID: question.id}
        self._tags = list(tags)
        self._record = record
        self._replayed = replayed
        self.parted_at: int | None = None  # the turn from which on the model speaks where lines are replayed

    async def next_text(self, history: Sequence[Turn]) -> str | None:
        """Return what the user says next, None if it ends the conversation.

        Raises JudgeBudgetExceeded if the budget does not allow another call, JudgeUnavailable without a key.
        """
        start_ns, turn = time.time_ns(), len(history) // 2 + 1
        if turn == 1:
            self._add(start_ns, turn=1, text=self._scenario.starting_prompt, source="scenario")
            return self._scenario.starting_prompt
        if (line := self._line(turn, history)) is not None:
            values = {"plan_part": line.plan_part, "ended": line.ended, "why": line.why}
            self._add(start_ns, turn=turn, text=line.text, source="replay", **values)
            return line.text
        if turn > self._scenario.ends_when.max_turns:
            self._add(start_ns, turn=turn, source="scenario", ended="max_turns")
            return None
        costs: list[float | None] = []
        try:
            judgement = await self._answer(history, costs)
        except JudgeBudgetExceeded:
            raise
        except JudgeError as error:
            text = str(error).removeprefix("judge ")
            self._add(
                start_ns, turn=turn, source="model", model=self._model.name, error=text, cost_usd=_sum(costs)
            )
            return None
        answer = UserAnswer.model_validate_json(judgement.reason)
        said = None if answer.ended != "no" else answer.text
        self._add(
            start_ns,
            turn=turn,
            text=said,
            source="model",
            plan_part=answer.plan_part,
            ended=None if answer.ended == "no" else answer.ended,
            why=answer.why,
            model=self._model.name,
            input_tokens=judgement.input_tokens,
            output_tokens=judgement.output_tokens,
            cost_usd=_sum([*costs, 0.0 if judgement.cached else judgement.cost_usd]),
        )
        return said

    def _line(self, turn: int, history: Sequence[Turn]) -> SimulatedMessage | None:
        """Return the step of the replayed session's user at a turn; None once the paths have parted.

        They part at the first turn at which the agent did not call the same tools, in order, as it did then,
        or asked (ends with a question mark) where it did not, or the reverse.
        """
        if self._replayed is None or self.parted_at is not None:
            return None
        line = next((one for one in self._replayed.simulated_messages if one.turn == turn), None)
        if line is None or line.error is not None or not _did_the_same(self._replayed, turn - 1, history[-1]):
            self.parted_at = turn
            return None
        return line

    async def _answer(self, history: Sequence[Turn], costs: list[float | None]) -> Judgement:
        """Return a valid answer; one that is not valid is asked for again, with another seed."""
        conversation = tuple(
            ("user" if isinstance(turn, UserTurn) else "agent", _plain(turn.text)) for turn in history
        )
        for number in range(_TRIES):
            question = UserQuestion(
                "simulate",
                self._role,
                conversation,
                parts=len(self._scenario.plan),
                seed=self._seed + 1000 * number,
            )
            try:
                return await self._model.ask(question)
            except JudgeBudgetExceeded:
                raise
            except JudgeError as error:
                if error.paid is None or number == _TRIES - 1:
                    raise  # the client tried several times to reach it
                costs.append(error.paid.cost_usd)
        raise AssertionError("unreachable")

    def _add(self, start_ns: int, **values: Any) -> None:
        is_end = values.get("ended") is not None or values.get("error") is not None
        attributes = {
            **self._attributes,
            semconv.TAGS: [*self._tags, COMPLETE] if is_end else self._tags,
            semconv.SIMULATED_MESSAGE: dumps(
                {key: value for key, value in values.items() if value is not None}
            ),
        }
        self._record(
            Span(
                uuid.uuid4().hex,
                uuid.uuid4().hex[:16],
                None,
                "simulated user",
                "INTERNAL",
                start_ns,
                time.time_ns(),
                attributes=attributes,
                scope_name=semconv.SCOPE_OF_USER,
            )
        )


User = FixedUser | SimulatedUser


def model_of_user(questions: Sequence[GoldenQuestion], options: RunOptions) -> JudgeRun | None:
    """Return the model that plays the users of questions, None if none of them has a scenario.

    Raises FieldError if there is none, or its price is limited and not known; JudgeUnavailable if it has no
    key; UnknownJudgeModel if its provider does not have it.
    """
    scenario = next((one for one in questions if one.scenario is not None), None)
    if scenario is None or scenario.scenario is None:
        return None
    if options.user_model is None:
        raise FieldError("options.user_model", "expected the model that plays its user", scenario.id)
    judge = load_judge(options.user_model)
    if isinstance(judge, KeyCheck):
        judge.require_key()
    if options.max_user_cost is not None:
        sample = UserQuestion("simulate", role(scenario.scenario), ())
        if not isinstance(judge, CostLimit) or judge.largest_cost_usd(sample) is None:
            raise FieldError("options.max_user_cost", f"the price of {judge.name} is not known")
    model = JudgeRun(judge, cache=lambda: default_cache_path().absolute(), max_cost_usd=options.max_user_cost)
    model.check_model()
    return model


def _did_the_same(before: Session, turn: int, reply: Turn) -> bool:
    """Return whether an agent's turn has the calls of the same turn of a session, and asks as it did."""
    if not isinstance(reply, AgentTurn) or turn > len(before.turns):
        return False
    calls = [call.tool_name for call in before.tool_interactions if call.turn == turn]
    asked = (before.turns[turn - 1].final_response or "").rstrip().endswith("?")
    same_calls = calls == [call.name for call in reply.tool_calls or ()]
    return same_calls and asked is _plain(reply.text).rstrip().endswith("?")


def role(scenario: Scenario) -> str:
    """Return the instructions of a model that plays the user of a scenario."""
    plan = [f"{number}. {part}" for number, part in enumerate(scenario.filled_plan, 1)]
    facts = [f"- {name}: {text}" for name, text in scenario.facts.items()]
    ends = [f"- {name}: {text}" for name, text in _ENDS.items() if getattr(scenario.ends_when, name)]
    return _ROLE.format(
        plan="\n".join(plan) or "(nothing but an answer to the first message)",
        facts="\n".join(facts) or "- nothing beyond what is written above",
        persona=_persona(scenario.persona),
        ends="\n".join(ends) or "- never",
    )


def _persona(persona: str | Persona | None) -> str:
    if persona is None:
        return "a person like any other, who writes short messages."
    if isinstance(persona, str):
        return _PERSONAS.get(persona, persona)
    of_behaviors = [one.get("behavior_instructions") for one in persona.behaviors]
    instructions = [line for lines in of_behaviors if isinstance(lines, list | tuple) for line in lines]
    return "\n- ".join([persona.description, *map(str, instructions)])


def _plain(text: Any) -> str:
    return text if isinstance(text, str) else str(text)


def _sum(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return fsum(known) if len(known) == len(costs) else None
