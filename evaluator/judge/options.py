"""The options of a run's judge, which the command line, Python, pytest and the settings share.

The judge in use is that of a grading run, a test run or a block. None is imported here: most test runs need
none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from spangrade.tracer.base.fields import FieldError, check_bounds, filled, option

MODEL_VARIABLE = "SPANGRADE_JUDGE_MODEL"
_factory: ContextVar[Callable[[], Any] | None] = ContextVar("spangrade_judge", default=None)


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """Which model judges a run, and within which limits.

    None is not given: the settings fill it in. Without these, the model is that of `use_judge`, else that of
    $SPANGRADE_JUDGE_MODEL, there is no limit, and each question is asked once. Raises InputError for a value
    that is out of range.
    """

    model: str | None = option(
        None,
        "The model that judges; else $SPANGRADE_JUDGE_MODEL.",
        name="--judge-model",
        metavar="PROVIDER/MODEL",
    )
    max_calls: int | None = option(
        None,
        "Ask the judge at most N times in all (watch: a day, UTC).",
        name="--judge-max-calls",
        metavar="N",
        least=0,
        setting="judge",
    )
    max_cost_usd: float | None = option(
        None,
        "Spend at most this on the judge in all (watch: a day, UTC).",
        name="--judge-max-cost",
        metavar="USD",
        least=0,
        setting="judge",
    )
    votes: int | None = option(
        None,
        "Ask N times, an odd number; the majority decides.",
        name="--judge-votes",
        metavar="N",
        shown_default="1",
        setting="judge",
    )
    threshold: float | None = option(
        None,
        "The rating that a reply needs (0.8), and how sure a yes must be, from 0 to 1.",
        name="--judge-threshold",
        metavar="SHARE",
        least=0,
        most=1,
        setting="judge",
    )
    required: bool | None = option(
        None,
        "Refuse to grade by a judge that has no key, instead of finding replies inconclusive.",
        name="--judge-required",
        setting="judge",
    )

    def __post_init__(self) -> None:
        if self.votes is not None and (self.votes < 1 or self.votes % 2 == 0):
            raise FieldError(
                "judge.votes", f"expected an odd number, so that there is a majority, found {self.votes}"
            )
        check_bounds(self, "judge")

    @property
    def names_model(self) -> bool:
        """Whether the model was chosen, by the options or by the environment."""
        return bool(self.model or os.environ.get(MODEL_VARIABLE))

    def filled(self, others: JudgeOptions) -> JudgeOptions:
        """Return these options, completed from `others` where an option is not given."""
        return filled(self, others)

    def share(self, index: int, count: int) -> JudgeOptions:
        """Return the options of process `index` (from 0) of `count` that share the budget equally."""
        calls, cost = self.max_calls, self.max_cost_usd
        return replace(
            self,
            max_calls=None if calls is None else calls // count + (index < calls % count),
            max_cost_usd=None if cost is None else cost / count,
        )


DEFAULTS = JudgeOptions()


@contextmanager
def judge_from(factory: Callable[[], Any]) -> Iterator[None]:
    """Call this function for the `Judge`, within the block, unless one is passed.

    It holds in this context: in its tasks, not in threads that it starts.
    """
    token = _factory.set(factory)
    try:
        yield
    finally:
        _factory.reset(token)


def judge_in_use() -> Any:
    """Return the judge of the innermost `judge_from`, None outside of one."""
    factory = _factory.get()
    return factory and factory()
