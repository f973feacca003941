"""A metric, and its outcomes: a score, inconclusive, not applicable or a failure."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any, NamedTuple, overload

from spangrade.evaluator.metrics.causes import Evidence


class Score(NamedTuple):
    """A measured value. `passed` is None if no threshold was applied to it.

    A bound (`is_bound`) is the best value that the known facts allow: it misses a threshold, no mean has it.
    `evidence` holds the spans that the reason refers to, by their ids or as `Cause`s; `details` holds the
    parts of the value (JSON values).
    """

    value: float
    passed: bool | None = None
    reason: str = ""
    evidence: tuple[Evidence, ...] = ()
    details: dict[str, Any] = {}  # noqa: RUF012 (never written to: a score is a value)
    is_bound: bool = False


class Inconclusive(NamedTuple):
    """The spans or the reference do not determine a value.

    `best` is the best value that the known facts allow, None if nothing is known. If even `best` misses a
    threshold, the metric fails. With `over_budget` the judge was not asked because its budget is spent.
    """

    reason: str
    best: float | None = None
    over_budget: bool = False


class Failure(NamedTuple):
    """The metric itself broke or, if `by_judge`, the judge that it asked; `error` says how and where."""

    error: str
    by_judge: bool = False


class NotApplicable(NamedTuple):
    """The metric does not concern the session: it neither passes nor fails there."""

    reason: str


Outcome = Score | Inconclusive | Failure | NotApplicable
Function = Callable[..., Outcome | float | Awaitable[Outcome | float]]


@dataclass(frozen=True, slots=True)
class Metric:
    """A named measure of a session.

    `function(session)` returns the outcome, or a number as the value of a score (true is 1, false is 0); so
    does `function(session, question)` if `needs` names the part
    of the golden question that is the reference (a key of `reference_data`, custom keys included, or
    `agents_evaluated`). For a question without that part the outcome is inconclusive and the function is not
    called. An async function, such as one that asks a judge, runs for many sessions at once.

    `threshold` makes the metric a gate; with None it is only reported. `higher_is_better` is None if neither
    direction is better: then the sign of a requested threshold decides. `scale` is the lowest and the highest
    possible value; without one a `share` lies between 0 and 1, any other unit is 0 or more.

    `agents`, if there are any, limits the metric to sessions in which one of them took part or should have;
    it is not applicable to the others.

    `parameters` are the function's keywords for the texts after colons in the name, in their order, each with
    its choices (`tools:in_order:exact`: what counts, then how arguments match), or any text without choices.
    A keyword that has no default is required.

    `grows` is true if spans that are not recorded could only have raised the value, as in a sum. `version` is
    that of its definition, where it is not a part of an installed package: the digest of its file.

    `where_given` is true of a metric that a file brings and nobody asked for by name: for a question without
    the part that it `needs` it does not run.
    """

    name: str
    function: Function
    description: str = ""
    needs: str | None = None
    threshold: float | None = None
    higher_is_better: bool | None = True
    unit: str = "share"
    parameters: tuple[tuple[str, tuple[str, ...]], ...] = ()
    scale: tuple[float, float] | None = None
    agents: tuple[str, ...] = ()
    grows: bool = False
    version: str = ""
    where_given: bool = False

    def __call__(self, *args: object, **parameter: str) -> Any:
        """Return the function's outcome, before any threshold is applied."""
        return self.function(*args, **parameter)

    @property
    def required(self) -> tuple[str, ...]:
        """The parameters without a default: the metric is requested with them alone."""
        known = signature(self.function).parameters
        return tuple(name for name, _ in self.parameters if known[name].default is Parameter.empty)

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest possible value."""
        return self.scale or (0.0, 1.0 if self.unit == "share" else math.inf)

    def meets(self, value: float, threshold: float) -> bool:
        """Return whether a value is at a threshold or on its better side."""
        return value <= threshold if self.higher_is_better is False else value >= threshold


def limited(
    outcome: Outcome, limit: float, unit: str, evidence: Callable[[], tuple[Evidence, ...]]
) -> Outcome:
    """Return an outcome in a unit as its ratio of a limit, at least its known part.

    `evidence` returns what is to be looked at where the limit is exceeded.
    """
    if isinstance(outcome, Score):
        reason = f"{outcome.value:.6g} {unit}, expected at most {limit:.6g}"
        return Score(outcome.value / limit, None, reason, evidence() if outcome.value > limit else ())
    if isinstance(outcome, Inconclusive) and outcome.best is not None:
        return outcome._replace(best=outcome.best / limit)
    return outcome


@overload
def metric(function: Function, /) -> Metric: ...
@overload
def metric(
    *,
    needs: str | None = None,
    threshold: float | None = None,
    higher_is_better: bool | None = True,
    unit: str = "share",
    parameters: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    scale: tuple[float, float] | None = None,
    grows: bool = False,
) -> Callable[[Function], Metric]: ...
def metric(
    function: Function | None = None,
    /,
    *,
    needs: str | None = None,
    threshold: float | None = None,
    higher_is_better: bool | None = True,
    unit: str = "share",
    parameters: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    scale: tuple[float, float] | None = None,
    grows: bool = False,
    **others: Any,
) -> Metric | Callable[[Function], Metric]:
    """Make a function a `Metric` with its name, described by the first line of its docstring.

    `@metric` alone does, where nothing else is to be said. Raises TypeError for `needs` of several parts.
    """
    if others:
        known = 'a smaller value is better: @metric(unit="count", higher_is_better=False)'
        raise TypeError(f"@metric has no {', '.join(others)}; where {known}")
    if not isinstance(needs, str | None):
        raise TypeError(f"needs: expected the name of one part of the question, found {needs!r:.80}")

    def make(function: Function) -> Metric:
        return Metric(
            name=function.__name__,
            function=function,
            description=(function.__doc__ or "").strip().partition("\n")[0],
            needs=needs,
            threshold=threshold,
            higher_is_better=higher_is_better,
            unit=unit,
            parameters=tuple(parameters.items()),
            scale=scale,
            grows=grows,
        )

    return make if function is None else make(function)
