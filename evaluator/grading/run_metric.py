"""One metric of one session: a stranger's code runs here, at once or on the judge's event loop."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from concurrent.futures import CancelledError, Future
from math import isfinite
from typing import Any

from spangrade.evaluator.golden import GoldenQuestion
from spangrade.evaluator.judge.event_loop import own_loop
from spangrade.evaluator.judge.protocol import JudgeBudgetExceeded, JudgeUnavailable
from spangrade.evaluator.metrics import Metric
from spangrade.evaluator.metrics.outcome import Failure, Inconclusive, Outcome, Score
from spangrade.evaluator.session import Session
from spangrade.tracer.errors import SpangradeError

Begun = Outcome | Future[Outcome]


def measure(metric: Metric, session: Session, question: GoldenQuestion | None) -> Outcome:
    """What a metric says of a session, judged by the metric's threshold if it has one; see `finish`."""
    return finish(metric, begin(metric, session, question))


def begin(metric: Metric, session: Session, question: GoldenQuestion | None) -> Begun:
    """Ask a metric of a session. What it says is known at once, or, of an async function, comes later.

    Of a session that may not be recorded whole no score holds: it is inconclusive, and an async function is
    not awaited.
    """
    try:
        if metric.needs is None:
            said = metric.function(session)
        elif question is None or question.reference(metric.needs) is None:
            return Inconclusive(f"the golden question has no {metric.needs}")
        else:
            said = metric.function(session, question)
        if why := _not_whole(session):
            said = _of_a_part(metric, said, why)
        if inspect.iscoroutine(said):
            return asyncio.run_coroutine_threadsafe(said, own_loop())
    except Exception as error:  # noqa: BLE001 (a stranger's code runs here)
        return _outcome_of(error)
    return said if isinstance(said, Outcome) else _no_outcome(said)


def finish(metric: Metric, begun: Begun) -> Outcome:
    """The outcome, waited for if need be, and judged by the metric's threshold if it has one.

    A metric that raises, or returns what is no outcome, is a `Failure`; one that cannot ask its judge, for
    want of a key or of a budget, is `Inconclusive`. An inconclusive one whose best possible value misses the
    threshold is a score that failed: nothing unknown could have saved it.
    """
    outcome = _awaited(begun) if isinstance(begun, Future) else begun
    if isinstance(outcome, Score):
        if not _is_number(outcome.value):
            return Failure(f"returned the value {outcome.value!r:.80}; expected a finite number")
        if metric.threshold is None:
            return outcome
        return Score(outcome.value, metric.reaches(outcome.value, metric.threshold), *outcome[2:])
    if isinstance(outcome, Inconclusive):
        if metric.threshold is None or outcome.best is None or metric.reaches(outcome.best, metric.threshold):
            return outcome
        return Score(outcome.best, False, f"at best {outcome.best:g}: {outcome.reason}")
    return outcome


def _not_whole(session: Session) -> str | None:
    """Why what is recorded of a session may not be the whole of it."""
    if missing := session.missing_spans:
        return f"{missing} {'span is' if missing == 1 else 'spans are'} missing from the recording"
    return "traces were sampled: some of the session may have been dropped" if session.sampled else None


def _of_a_part(metric: Metric, said: Any, why: str) -> Any:
    """What a metric said of the recorded part of a session, as far as it holds of the whole.

    A value that only grows is at least that: a limit that it is beyond is missed whatever the rest was.
    """
    parts = [why]
    if inspect.iscoroutine(said):
        said.close()
    elif not isinstance(said, Score) or not _is_number(said.value):
        return said
    elif said.reason:
        parts.append(f"of the rest: {said.reason}")
    best = (
        said.value if isinstance(said, Score) and metric.grows and metric.higher_is_better is False else None
    )
    return Inconclusive("; ".join(parts), best)


def _awaited(begun: Future[Outcome]) -> Outcome:
    try:
        said: Any = begun.result()
    except (Exception, CancelledError) as error:  # noqa: BLE001 (a stranger's code ran there)
        return _outcome_of(error)
    return said if isinstance(said, Outcome) else _no_outcome(said)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and isfinite(value)


def _no_outcome(said: Any) -> Failure:
    return Failure(f"returned {said!r:.80}; expected a Score, Inconclusive or Failure")


def _outcome_of(error: BaseException) -> Outcome:
    if isinstance(error, JudgeUnavailable | JudgeBudgetExceeded):
        return Inconclusive(str(error))
    if isinstance(error, SpangradeError):
        return Failure(str(error))
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Failure(f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})")
