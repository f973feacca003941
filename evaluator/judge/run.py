"""A run's use of a judge: cache, concurrency, budget, votes, and cost."""

from __future__ import annotations

import asyncio
import atexit
import functools
import hashlib
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from spangrade.evaluator.judge.cache import VerdictCache
from spangrade.evaluator.judge.prompts import prompt_version
from spangrade.evaluator.judge.protocol import (
    CostLimit,
    Judge,
    JudgeBudgetExceeded,
    JudgeError,
    Judgement,
    JudgeUnavailable,
    KeyCheck,
    ModelCheck,
    Paid,
    Question,
)
from spangrade.tracer.base.terminal import counted

# For one question, its retries included.
_QUESTION_TIMEOUT_S = 180.0

_Number = TypeVar("_Number", int, float)
_starting = threading.Lock()


@dataclass(frozen=True, slots=True)
class Spent:
    """The usage of a run: `calls` of the judge, `cache_hits` that needed no call, tokens, and USD.

    None means unknown: an answer did not report its tokens, or its model has no known price. An answer that
    is not valid counts like any other; a call without an answer counts as a call, without tokens or cost.
    """

    calls: int = 0
    cache_hits: int = 0
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cost_usd: float | None = 0.0

    def __str__(self) -> str:
        """Return it in one line: `2 calls, 6 cache hits, 2000 tokens in, 200 out, $0.001100`."""
        tokens = [
            "unknown" if count is None else str(count) for count in (self.input_tokens, self.output_tokens)
        ]
        cost = "cost unknown" if self.cost_usd is None else f"${self.cost_usd:.6f}"
        return (
            f"{counted(self.calls, 'call')}, {counted(self.cache_hits, 'cache hit')}, "
            f"{tokens[0]} tokens in, {tokens[1]} out, {cost}"
        )


def spent_since(before: Spent, now: Spent) -> Spent:
    """Return the spending between two moments of a run."""
    differences: Any = map(_difference, astuple(now), astuple(before))
    return Spent(*differences)


def total_spent(parts: Iterable[Spent]) -> Spent:
    """Return the sum; a value that is unknown in any part is unknown in it."""
    sums: Any = map(_sum, zip(*map(astuple, parts), strict=True))
    return Spent(*sums)


class JudgeRun:
    """A judge that asks another judge within limits, and never the same question twice.

    At most `max_concurrency` questions are asked at once. `max_calls` and `max_cost_usd` limit the run in
    this process. A call in progress reserves the cost of its largest answer, and the next call waits if
    nothing is left, so that the limit is exceeded by one answer at most. Each question is asked `votes` times
    (an odd number); the majority, or the median of a rating, is the verdict. A yes with a score below
    `min_score` counts as a no. Verdicts are kept in the file `cache`, a path or a function that returns it
    when it is first needed; with None, only for the run.

    Any thread and event loop may call it: questions are sent from the loop of `own_loop`.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        cache: Path | Callable[[], Path] | None = None,
        max_concurrency: int = 40,
        max_calls: int | None = None,
        max_cost_usd: float | None = None,
        min_score: float | None = None,
        votes: int = 1,
    ) -> None:
        if votes < 1 or votes % 2 == 0:
            raise ValueError(f"votes must be odd, so that there is a majority, found {votes}")
        self.name = judge.name
        self._judge = judge
        self._key_check = judge if isinstance(judge, KeyCheck) else None
        self._cache_path = cache
        self._slots = asyncio.Semaphore(max_concurrency)
        self._max_calls = max_calls
        self._max_cost_usd = max_cost_usd
        self._min_score = min_score
        self._votes = votes
        self._prompt_version = prompt_version()
        self._answers: dict[str, asyncio.Task[Judgement]] = {}
        self._spent = Spent()
        self._reserved_usd = 0.0  # for the calls in progress
        self._in_progress = 0
        self._returned = asyncio.Condition()

    @functools.cached_property
    def _cache(self) -> VerdictCache | None:
        path = self._cache_path() if callable(self._cache_path) else self._cache_path
        return VerdictCache(path) if path else None

    @property
    def spent(self) -> Spent:
        """The usage until now."""
        return self._spent

    @property
    def unavailable(self) -> JudgeUnavailable | None:
        """Why no question can be answered: there is neither a key nor a known verdict. None if one may be."""
        if self._key_check is None or self._answers or (self._cache and self._cache.path.exists()):
            return None
        try:
            self._key_check.require_key()
        except JudgeUnavailable as error:
            return error
        return None

    def check_model(self) -> None:
        """Ask the provider, if it can say so, whether it has the judge's model; this costs nothing.

        Raises UnknownJudgeModel if it does not. Without a key, or if the provider cannot be reached, nothing
        is raised: the first question shows it.
        """
        if isinstance(self._judge, JudgeRun):
            self._judge.check_model()
        elif isinstance(self._judge, ModelCheck):
            asyncio.run_coroutine_threadsafe(self._judge.check_model(), own_loop()).result()

    async def ask(self, question: Question) -> Judgement:
        """Return the verdict, `cached` if it was known.

        Raises:
            JudgeUnavailable: the judge has no key.
            UnknownJudgeModel: the provider does not have the model.
            JudgeBudgetExceeded: the budget does not allow another call.
            JudgeError: the judge broke.
            StoreError: the cache cannot be used.
        """
        return await _in_own_loop(self._ask(question))

    async def pay(self, call: Callable[[], Awaitable[Judgement]]) -> Judgement:
        """Call another service within the budget of this run, count the cost, and return the judgement.

        Raises JudgeBudgetExceeded if the budget does not allow it, and what the call raises.
        """
        return await _in_own_loop(self._paid(call))

    async def _ask(self, question: Question) -> Judgement:
        text = json.dumps({one.name: getattr(question, one.name) for one in fields(question)}, sort_keys=True)
        inputs = json.dumps([self.name, self._prompt_version, self._votes, text])
        key = hashlib.sha256(inputs.encode()).hexdigest()
        task = self._answers.get(key)
        known = task is not None
        if task is None:
            task = self._answers[key] = asyncio.create_task(self._answer(key, text, question))
            task.add_done_callback(functools.partial(self._forget_failure, key))
        verdict = await asyncio.shield(task)  # a caller that is cancelled must not cancel the others' answer
        if known:
            verdict = replace(verdict, cached=True)
        if verdict.cached:
            self._spent = replace(self._spent, cache_hits=self._spent.cache_hits + 1)
        return self._with_threshold(verdict)

    def _forget_failure(self, key: str, task: asyncio.Task[Judgement]) -> None:
        if task.cancelled() or task.exception():
            del self._answers[key]

    async def _answer(self, key: str, text: str, question: Question) -> Judgement:
        async with self._slots:
            if self._cache is None:
                return await self._put_to_vote(question)
            if known := self._cache.get(key):
                return known
            if self._key_check is not None:
                self._key_check.require_key()
            async with self._cache.lock(key):  # another process may be asking the same
                if known := self._cache.get(key):
                    return known
                verdict = await self._put_to_vote(question)
                await self._cache.put(key, verdict, self.name, self._prompt_version, text)
                return verdict

    async def _put_to_vote(self, question: Question) -> Judgement:
        verdicts = [await self._call(question) for _ in range(self._votes)]
        return verdicts[0] if self._votes == 1 else _majority(verdicts)

    async def _call(self, question: Question) -> Judgement:
        async def ask() -> Judgement:
            try:
                async with asyncio.timeout(_QUESTION_TIMEOUT_S):
                    return await self._judge.ask(question)
            except TimeoutError as error:
                raise JudgeError(f"judge {self.name}: no verdict within {_QUESTION_TIMEOUT_S:g} s") from error

        return await self._paid(ask, question)

    def largest_cost_usd(self, question: Question) -> float | None:
        """Return the cost of the judge's largest answer in USD, None if it is unknown."""
        judge = self._judge
        return judge.largest_cost_usd(question) if isinstance(judge, CostLimit) else None

    async def _paid(
        self, call: Callable[[], Awaitable[Judgement]], question: Question | None = None
    ) -> Judgement:
        reserved_usd = await self._reserve(question)
        try:
            verdict = await call()
            if verdict.cached:  # another run that is asked in turn knew it
                self._spent = replace(self._spent, calls=self._spent.calls - 1)
            else:
                self._add(Paid(verdict.input_tokens, verdict.output_tokens, verdict.cost_usd))
            return verdict
        except JudgeUnavailable:
            self._spent = replace(self._spent, calls=self._spent.calls - 1)
            raise
        except JudgeError as error:
            if error.paid is not None:
                self._add(error.paid)
            raise
        finally:
            self._reserved_usd -= reserved_usd
            self._in_progress -= 1
            async with self._returned:
                self._returned.notify_all()

    async def _reserve(self, question: Question | None) -> float:
        """Return the USD reserved for a call, as soon as the budget allows it beside those in progress."""
        largest_usd = 0.0
        if self._max_cost_usd is not None:
            known = None if question is None else self.largest_cost_usd(question)
            largest_usd = self._max_cost_usd if known is None else known  # nothing beside it, if unknown
        async with self._returned:
            while self._must_wait():
                await self._returned.wait()
            self._reserved_usd += largest_usd
            self._in_progress += 1
            self._spent = replace(self._spent, calls=self._spent.calls + 1)
            return largest_usd

    def _must_wait(self) -> bool:
        """Return whether a call must wait for one in progress; raise if none is allowed any more."""
        spent, limit_usd = self._spent, self._max_cost_usd
        if self._max_calls is not None and spent.calls >= self._max_calls:
            raise JudgeBudgetExceeded(
                f"judge {self.name}: all {self._max_calls} calls of the budget are spent (max_calls)"
            )
        if limit_usd is None:
            return False
        if spent.cost_usd is None:
            raise JudgeError(
                f"judge {self.name}: its price is unknown, so max_cost_usd cannot be kept: use max_calls"
            )
        if spent.cost_usd >= limit_usd:
            raise JudgeBudgetExceeded(
                f"judge {self.name}: {spent.cost_usd:.6f} USD are spent of a budget "
                f"of {limit_usd:g} USD (max_cost_usd)"
            )
        return self._in_progress > 0 and spent.cost_usd + self._reserved_usd >= limit_usd

    def _add(self, paid: Paid) -> None:
        self._spent = total_spent([self._spent, Spent(0, 0, *paid)])

    def _with_threshold(self, verdict: Judgement) -> Judgement:
        if self._min_score is None or not verdict.passed:
            return verdict
        if verdict.score is None:
            raise JudgeError(
                f"judge {self.name}: gave no score to compare with min_score {self._min_score:g}"
            )
        if verdict.score >= self._min_score:
            return verdict
        reason = f"{verdict.reason} (score {verdict.score:g} is below {self._min_score:g})"
        return replace(verdict, passed=False, reason=reason)


async def _in_own_loop(coroutine: Coroutine[Any, Any, Judgement]) -> Judgement:
    loop = own_loop()
    if asyncio.get_running_loop() is loop:
        return await coroutine
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))


def _majority(verdicts: list[Judgement]) -> Judgement:
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    yes = [verdict for verdict in verdicts if verdict.passed]
    no = [verdict for verdict in verdicts if verdict.passed is False]
    passed: bool | None
    if not yes and not no:
        passed, winners, note = None, verdicts, f"median of {len(verdicts)}" if scores else "all votes"
    else:
        passed = next((votes is yes for votes in (yes, no) if len(votes) * 2 > len(verdicts)), None)
        winners = [verdict for verdict in verdicts if verdict.passed is passed]
        note = f"{len(winners)} of {len(verdicts)} votes"
        scores = [verdict.score for verdict in winners if verdict.score is not None]
    score = median(scores) if scores else None
    reason = min(winners, key=lambda verdict: abs((verdict.score or 0) - (score or 0))).reason
    return Judgement(
        passed,
        score,
        f"{reason} ({note})",
        _sum(verdict.input_tokens for verdict in verdicts),
        _sum(verdict.output_tokens for verdict in verdicts),
        _sum(verdict.cost_usd for verdict in verdicts),
    )


def _difference(now: _Number | None, before: _Number | None) -> _Number | None:
    return None if now is None or before is None else now - before


def _sum(values: Iterable[_Number | None]) -> _Number | None:
    """Return the sum, None (unknown) if any value is."""
    total: _Number = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def own_loop() -> asyncio.AbstractEventLoop:
    """Return the loop, started at the first call; tasks that still run at exit are cancelled.

    It works for callers with and without a loop of their own, and connections stay open although pytest
    makes a new loop for each test.
    """
    with _starting:
        return _start_loop()


@functools.cache
def _start_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=_run, args=(loop,), name="spangrade-judge", daemon=True)
    thread.start()

    @atexit.register
    def stop() -> None:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    return loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then cancel its tasks.

    asyncio.run would also shut the loop's executor down, in a new thread, which Python 3.12 does not start at
    exit any more. The executor's threads are joined at exit in any case.
    """
    asyncio.set_event_loop(loop)
    loop.run_forever()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()
