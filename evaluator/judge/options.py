"""The options of a run's judge, which the command line, the Python API and pytest share."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from spangrade.evaluator.judge.cache import default_cache_path
from spangrade.evaluator.judge.choice import MODEL_VARIABLE, judge_in_use, load_judge
from spangrade.evaluator.judge.protocol import Judge
from spangrade.evaluator.judge.run import JudgeRun
from spangrade.tracer.errors import InputError


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """Which model judges a run, and within which limits; None is no limit.

    `model` is `provider/model`, without one that of the environment. `max_calls` and `max_cost_usd` limit the
    run. Each question is asked `votes` times, an odd number. `threshold`, from 0 to 1, is how sure a yes must
    be to count. Raises InputError for a value that is out of range.
    """

    model: str | None = None
    max_calls: int | None = None
    max_cost_usd: float | None = None
    votes: int = 1
    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.votes < 1 or self.votes % 2 == 0:
            raise InputError(f"--judge-votes must be odd, so that there is a majority, found {self.votes}")
        if self.max_calls is not None and self.max_calls < 0:
            raise InputError(f"--judge-max-calls must be 0 or more, found {self.max_calls}")
        if self.max_cost_usd is not None and not self.max_cost_usd >= 0:
            raise InputError(f"--judge-max-cost must be 0 or more, found {self.max_cost_usd}")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise InputError(f"--judge-threshold must be from 0 to 1, found {self.threshold}")

    @property
    def names_model(self) -> bool:
        """Whether the model was chosen, by the options or by the environment."""
        return bool(self.model or os.environ.get(MODEL_VARIABLE))

    def share(self, index: int, count: int) -> JudgeOptions:
        """Return the options of process `index` (from 0) of `count` that share the budget equally."""
        calls, cost = self.max_calls, self.max_cost_usd
        return replace(
            self,
            max_calls=None if calls is None else calls // count + (index < calls % count),
            max_cost_usd=None if cost is None else cost / count,
        )


DEFAULTS = JudgeOptions()


def judge_run(options: JudgeOptions) -> JudgeRun:
    """Return a judge with these options and the default cache; nothing is asked yet.

    Raises:
        InputError: the model's provider is not installed.
    """
    return _with_options(load_judge(options.model), options, lambda: default_cache_path().absolute())


def judge_of_run(options: JudgeOptions) -> JudgeRun:
    """Return the judge of a grading run: that in use if the options name no model, else `judge_run`.

    Raises:
        InputError: the model's provider is not installed.
    """
    judge = judge_in_use()
    if judge is None or options.model is not None:
        return judge_run(options)
    if isinstance(judge, JudgeRun) and options == DEFAULTS:
        return judge
    return _with_options(judge, options, None)


def _with_options(judge: Judge, options: JudgeOptions, cache: Callable[[], Path] | None) -> JudgeRun:
    return JudgeRun(
        judge,
        cache=cache,
        max_calls=options.max_calls,
        max_cost_usd=options.max_cost_usd,
        min_score=options.threshold,
        votes=options.votes,
    )
