"""Hold conversations with an agent: each asks one golden question once, several at a time."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import fsum
from types import MappingProxyType
from typing import Any, NamedTuple

from spangrade import tracer
from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.converters.spans.vendor import Vendor
from spangrade.evaluator.agents.adapters import Reply
from spangrade.evaluator.agents.adapters.remote import UnreachableError
from spangrade.evaluator.agents.drive import Driver
from spangrade.evaluator.agents.exchange import Exchange, observed
from spangrade.evaluator.agents.in_time import OWN_THREADS
from spangrade.evaluator.agents.recorded import COMPLETE, INTERRUPTED, Recorder, origin_in_run, tags_of
from spangrade.evaluator.agents.users import FixedUser, SimulatedUser, User
from spangrade.evaluator.derive.cost import context_window
from spangrade.evaluator.grading.run_options import RunOptions
from spangrade.evaluator.judge.protocol import JudgeBudgetExceeded
from spangrade.evaluator.judge.run import JudgeRun
from spangrade.evaluator.session import Session
from spangrade.evaluator.turn import Turn as ConversationTurn
from spangrade.evaluator.turn import UserTurn
from spangrade.tracer import semconv
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.faults import Fault, Faults
from spangrade.tracer.frameworks import Framework, not_recorded
from spangrade.tracer.instrument import CurrentTurn
from spangrade.tracer.span import Span

_NOT_RECORDED = (
    "the tracer provider of the agent's process did not record a turn (OTEL_SDK_DISABLED, a sampler, "
    "configure(sample=…)): expected one that records all"
)
NO_SESSIONS: Mapping[tuple[str, int], Session] = MappingProxyType({})


class Task(NamedTuple):
    """A question to ask; `repeat` counts from 1, and `asked` is `asked_of` it."""

    question: GoldenQuestion
    repeat: int
    asked: str = ""


class Held(NamedTuple):
    """A conversation that is over; `error` is the agent's exception.

    `cost_usd` is the price of the model calls in its spans; None without any, or if one's is unknown.
    """

    task: Task
    session_id: str
    spans: tuple[Span, ...]
    error: str | None
    cost_usd: float | None


class _Rate:
    """The times at which turns may start."""

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self._next_s = 0.0

    async def wait(self) -> None:
        """Wait until the next turn may start."""
        now_s = time.monotonic()
        start_s = max(self._next_s, now_s)
        self._next_s = start_s + self._pause_s
        if start_s > now_s:
            await asyncio.sleep(start_s - now_s)


class Conversations:
    """The conversations of a run; their spans are stored turn by turn.

    `spent_usd` is the price of all model calls in their spans as far as it is known, `not_begun` are the
    questions that were not asked because this price was over the limit, `over_user_budget` the questions
    whose simulated user could not go on or begin. `dialects` are the settings'. `user_model` plays the users
    of scenarios. In the sessions `replayed`, by question and repeat, it repeats its texts while the agent
    repeats its behaviour; `parted` has the turn at which the agent did not, None if it always did.
    `spent_before_usd` is the cost so far of a run that is completed.
    """

    def __init__(
        self,
        agent: Any,
        mark: str,
        options: RunOptions,
        recorder: Recorder,
        *,
        on_end: Callable[[Held], None] = lambda _: None,
        dialects: Sequence[Vendor] = (),
        user_model: JudgeRun | None = None,
        replayed: Mapping[tuple[str, int], Session] = NO_SESSIONS,
        spent_before_usd: float = 0.0,
    ) -> None:
        self._replayed = replayed
        self.parted: list[tuple[Task, int | None]] = []
        self._driver = Driver(
            agent,
            timeout_s=options.timeout_s,
            late_s=options.late_s,
            dialects=dialects,
            name=options.agent_name,
        )
        self.user_model = user_model
        self.mark = mark
        self.options = options
        self.recorder = recorder
        self._on_end = on_end
        self.dialects = dialects
        self._rate = _Rate(options.pause_s)
        self.model_calls = 0  # that spans record
        self.awaits_spans = False  # whether an agent in another process left the calls of a turn to its spans
        self._costs = [spent_before_usd]
        self._is_reached = False  # whether the agent has answered, with whatever
        self.not_begun: list[Task] = []
        self.over_user_budget: list[Task] = []

    @property
    def spent_usd(self) -> float:
        """The price of the model calls so far, as far as it is known."""
        return fsum(self._costs)

    @property
    def unrecorded(self) -> Framework | None:
        """A framework whose spans are not recorded, if no model call of an agent in this process is."""
        is_here = self._is_reached and not self._driver.is_elsewhere
        return not_recorded() if is_here and not self.model_calls else None

    async def hold(self, tasks: Iterable[Task]) -> None:
        """Hold a conversation for each task, in their order; if this is cancelled, all end."""
        asyncio.get_running_loop().set_default_executor(OWN_THREADS)
        self._driver.open("")  # an agent that cannot be run is known before the first session
        observed((), Reply(), self.dialects)  # loads what the first turn would wait for
        context_window("", None)
        rest = iter(tasks)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.options.at_once):
                    group.create_task(self._hold_each(rest))
            self.recorder.add(await self._driver.end())
        finally:
            self.recorder.add(self._driver.give_up())

    async def _hold_each(self, tasks: Iterator[Task]) -> None:
        for task in tasks:
            if self.options.max_cost is not None and self.spent_usd > self.options.max_cost:
                self.not_begun += [task, *tasks]
                return
            if self.over_user_budget:
                self.over_user_budget += [task, *tasks]
                return
            self._on_end(await self._hold_one(task))

    async def _hold_one(self, task: Task) -> Held:
        session_id = f"{task.question.id}-{uuid.uuid4().hex[:8]}"
        answer = self._driver.open(session_id)
        replayed = (task.question.id, task.repeat) in self._replayed
        tags = tags_of(self.mark, task.repeat, task.asked, origin_in_run(task.question, replayed=replayed))
        spans: list[Span] = []
        history: list[ConversationTurn] = []
        costs: list[float | None] = []
        error: str | None = None
        faults = _faults_of(task.question)
        user = self._user_of(task, session_id, tags, spans)
        while True:
            try:
                text = await user.next_text(history)
            except JudgeBudgetExceeded:
                self.over_user_budget.append(task)
                break
            if text is None:
                break
            await self._rate.wait()
            of_turn: list[Span] = []
            session = tracer.session(session_id, question_id=task.question.id, tags=tags)
            session.faults = faults
            is_last = user.is_over

            def mark(turn: CurrentTurn, exchange: Exchange | None, *, is_last: bool = is_last) -> None:
                is_complete = exchange is not None and (is_last or exchange.error is not None)
                more = (INTERRUPTED,) if exchange is None else (COMPLETE,) if is_complete else ()
                turn.span.set_attribute(semconv.TAGS, (*tags, *more))

            try:
                exchange = await self._driver.take_turn(answer, text, history, session, of_turn, at_end=mark)
                if not of_turn:
                    raise InputError(_NOT_RECORDED)
                self._end_if_unreachable(exchange, of_turn)
            finally:
                spans += of_turn
                self.recorder.add(of_turn)
            self.model_calls += exchange.model_calls
            costs.append(exchange.cost_usd)
            self._costs.append(exchange.cost_usd or 0.0)
            if self._driver.is_elsewhere and exchange.error is None:
                self.awaits_spans |= exchange.why_calls_unknown() is not None
            if (error := exchange.failure) is not None:
                break
            history += [UserTurn(text), exchange.as_agent_turn()]
        if isinstance(user, SimulatedUser) and replayed:
            self.parted.append((task, user.parted_at))
        known = [cost for cost in costs if cost is not None]
        return Held(task, session_id, tuple(spans), error, fsum(known) if known else None)

    def _end_if_unreachable(self, exchange: Exchange, spans: list[Span]) -> None:
        """Raise InputError, and store nothing, if a server did not take the first connection of the run."""
        error = exchange.error
        if error is not None and issubclass(type(error), UnreachableError) and not self._is_reached:
            spans.clear()
            raise InputError(*error.args)
        self._is_reached = True

    def _user_of(self, task: Task, session_id: str, tags: tuple[str, ...], spans: list[Span]) -> User:
        """Return the user of a conversation; a simulated one's messages are recorded, too."""
        if task.question.scenario is None or self.user_model is None:
            return FixedUser(task.question.user_inputs)

        def record(span: Span) -> None:
            spans.append(span)
            self.recorder.add([span])

        before = self._replayed.get((task.question.id, task.repeat))
        return SimulatedUser(self.user_model, task.question, task.repeat, session_id, tags, record, before)


def _faults_of(question: GoldenQuestion) -> Faults | None:
    """Return the faults of one conversation, None if it is not a drill."""
    given = () if question.scenario is None else question.scenario.faults
    return Faults(Fault(one.tool, one.call, one.kind, one.value) for one in given) if given else None
