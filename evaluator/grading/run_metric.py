"""Run one metric on one session: third-party code runs here, at once or on the judge's event loop."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from math import isfinite
from typing import Any

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.grading.policy import TURNS_ANSWERED, excluded
from spangrade.evaluator.judge.protocol import (
    JudgeBudgetExceeded,
    JudgeError,
    JudgeUnavailable,
    UnknownJudgeModel,
)
from spangrade.evaluator.judge.run import own_loop
from spangrade.evaluator.metrics import Failure, Inconclusive, Metric, NotApplicable, Outcome, Score
from spangrade.evaluator.session import Session
from spangrade.tracer.base.errors import SpangradeError, text_of

Started = Outcome | Future[Outcome]
_OUTCOMES = (Score, Inconclusive, NotApplicable, Failure)
_NUMBERS = (int, float)


def start(
    metric: Metric, session: Session, question: GoldenQuestion | None, incomplete: str | None
) -> Started:
    """Return a metric's outcome for a session or, of an async function, a future for `resolve`.

    `incomplete` is why the session may not be recorded completely, None if it is: then the outcome is
    inconclusive and an async function is not awaited.

    A metric that raises or exits, or returns something other than an outcome or a number (true is 1), is a
    `Failure`, and so is one whose judge fails. One that cannot ask its judge, without a key or beyond the
    budget, is `Inconclusive`. The metric's threshold is applied; an inconclusive metric whose best possible
    value misses it has failed: nothing unknown could have changed that.

    Raises UnknownJudgeModel: nothing can be judged then.
    """
    if metric.agents and (outcome := excluded(metric, session, question)):
        return outcome
    try:
        if metric.needs is None:
            result = metric.function(session)
        elif question is None or question.reference(metric.needs) is None:
            return Inconclusive(f"the golden question has no {metric.needs}; add it to the question")
        else:
            result = metric.function(session, question)
        if incomplete:
            result = _of_incomplete(metric, result, incomplete, session)
        elif type(result) not in _OUTCOMES and inspect.iscoroutine(result):
            return asyncio.run_coroutine_threadsafe(_without_exit(result), own_loop())
        return _judged(metric, result)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (third-party code runs here)
        return _outcome_of_error(error)


def resolve(metric: Metric, started: Started) -> Outcome:
    """Return the outcome of a metric, waiting for it if necessary; see `start`."""
    if not isinstance(started, Future):
        return started
    try:
        return _judged(metric, started.result())
    except (Exception, CancelledError) as error:  # noqa: BLE001 (third-party code ran there)
        return _outcome_of_error(error)


def _judged(metric: Metric, result: Any) -> Outcome:
    """Return a metric's result as an outcome, with its threshold applied."""
    outcome = result if type(result) in _OUTCOMES else _checked(result)
    if isinstance(outcome, Score):
        value = outcome.value
        if not ((type(value) is float and isfinite(value)) or _is_number(value)):
            return Failure(f"returned the value {value!r:.80}; expected a finite number")
        if metric.threshold is None:
            return outcome
        passed = metric.meets(value, metric.threshold)
        return Score(value, passed, outcome.reason, outcome.evidence, outcome.details)
    if isinstance(outcome, Inconclusive):
        if metric.threshold is None or outcome.best is None or metric.meets(outcome.best, metric.threshold):
            return outcome
        return Score(outcome.best, False, f"at best {outcome.best:g}: {outcome.reason}", is_bound=True)
    return outcome


async def _without_exit(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Await a coroutine; its `sys.exit()` would end the event loop of all judges."""
    try:
        return await coroutine
    except SystemExit as error:
        return _outcome_of_error(error)


def _of_incomplete(metric: Metric, result: Any, why: str, session: Session) -> Any:
    """Return a metric's result for the recorded part of a session as far as it holds for the whole.

    A value that only grows is a lower bound: a limit that it exceeds is missed whatever else happened. What a
    run or a test saw of all turns is known, whatever happened in them: the replies, and that there was none.
    """
    if inspect.iscoroutine(result):
        result.close()
        return Inconclusive(why)
    result = _checked(result)
    is_limited = metric.grows and metric.higher_is_better is False
    if isinstance(result, Inconclusive):
        return result if is_limited else result._replace(best=None)
    if not isinstance(result, Score) or not _is_number(result.value):
        return result
    reason = f"{why}; of the rest: {result.reason}" if result.reason else why
    is_seen = metric.name == TURNS_ANSWERED and all(turn.driven for turn in session.turns)
    return Inconclusive(reason, result.value if is_limited or is_seen else None)


def _checked(result: Any) -> Outcome:
    if isinstance(result, _OUTCOMES):
        return result
    if isinstance(result, _NUMBERS):
        return Score(float(result))
    return Failure(f"returned {result!r:.80}; expected a Score, Inconclusive, NotApplicable or a number")


def _is_number(value: object) -> bool:
    return isinstance(value, _NUMBERS) and isfinite(value)


def _outcome_of_error(error: BaseException) -> Outcome:
    if isinstance(error, UnknownJudgeModel):
        raise error
    if isinstance(error, JudgeUnavailable | JudgeBudgetExceeded):
        return Inconclusive(str(error), over_budget=isinstance(error, JudgeBudgetExceeded))
    if isinstance(error, JudgeError):
        return Failure(str(error), by_judge=True)
    if isinstance(error, SpangradeError):
        return Failure(str(error))
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Failure(f"{text_of(error)} ({last.filename}, line {last.lineno})")
