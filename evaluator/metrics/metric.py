"""What a metric is: a function, and what is said about it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from spangrade.evaluator.metrics.outcome import Outcome

Function = Callable[..., Outcome | Awaitable[Outcome]]


@dataclass(frozen=True, slots=True)
class Metric:
    """A named measure of a session.

    `function(session)` gives the outcome, or `function(session, question)` where `needs` names the part
    of the golden question that is the reference (a key of `reference_data`, custom keys included, or
    `agents_evaluated`); a question without that part is inconclusive and the function is not called. An
    async function (one that asks a judge) is asked of many sessions at once.

    `threshold` makes the metric a gate; None reports it only. `higher_is_better` None means that neither
    is: a threshold says which way it bounds. Without a `scale` (the lowest and the highest value that there
    can be) a `share` lies between 0 and 1, every other unit from 0 up.

    `agents`, where there are any, are those that it is for: it is left out where none of them took part.

    `parameter` is the function's keyword for the text after a colon in the name (`tool_recall:exact`);
    with `choices` it is one of these and may be left out, without it is any text and must be given.

    `grows` says that what is not recorded could only have raised the value, as of a sum.
    """

    name: str
    function: Function
    description: str = ""
    needs: str | None = None
    threshold: float | None = None
    higher_is_better: bool | None = True
    unit: str = "share"
    parameter: str | None = None
    choices: tuple[str, ...] = ()
    scale: tuple[float, float] | None = None
    agents: tuple[str, ...] = ()
    grows: bool = False

    def __call__(self, *args: object, **parameter: str) -> Any:
        """What the function says of a session (and its golden question), before any threshold."""
        return self.function(*args, **parameter)

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest value that there can be."""
        return self.scale or (0.0, 1.0 if self.unit == "share" else math.inf)

    def reaches(self, value: float, threshold: float) -> bool:
        """Whether a value is on the right side of a threshold, or at it."""
        return value <= threshold if self.higher_is_better is False else value >= threshold


def metric(
    *,
    needs: str | None = None,
    threshold: float | None = None,
    higher_is_better: bool | None = True,
    unit: str = "share",
    parameter: str | None = None,
    choices: tuple[str, ...] = (),
    scale: tuple[float, float] | None = None,
    grows: bool = False,
) -> Callable[[Function], Metric]:
    """Make a function the `Metric` of its name, described by the first line of its docstring."""

    def named(function: Function) -> Metric:
        description = (function.__doc__ or "").strip().partition("\n")[0]
        return Metric(
            function.__name__,
            function,
            description,
            needs,
            threshold,
            higher_is_better,
            unit,
            parameter,
            choices,
            scale,
            grows=grows,
        )

    return named
