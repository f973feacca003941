"""The judge that is used: of a run's options, else the one in use, else that of the environment."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from spangrade.evaluator.judge.cache import default_cache_path
from spangrade.evaluator.judge.models.gemini import DEFAULT_MODEL, GeminiJudge
from spangrade.evaluator.judge.options import DEFAULTS, MODEL_VARIABLE, JudgeOptions, judge_from, judge_in_use
from spangrade.evaluator.judge.protocol import Judge
from spangrade.evaluator.judge.run import JudgeRun
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.plugins import plugins

ENTRY_POINTS = "spangrade.judges"

# Of models that are not Gemini's, by how their names begin.
_PROVIDERS = {
    "gpt-": "openai",
    "chatgpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
}


def load_judge(model: str | None = None) -> Judge:
    """Return the judge for `model`, else for `$SPANGRADE_JUDGE_MODEL`, else for a current Gemini Flash.

    The provider in `provider/model` is an entry point of the group `spangrade.judges` (a class that takes
    the model); only that one is loaded. A model without a provider is Gemini's.

    Raises:
        InputError: this provider is not installed.
    """
    model = model or os.environ.get(MODEL_VARIABLE) or DEFAULT_MODEL
    provider, slash, name = model.partition("/")
    if not slash:
        if (
            meant := next((to for begins, to in _PROVIDERS.items() if model.startswith(begins)), None)
        ) is not None:
            raise InputError(f'judge model "{model}": its provider is missing; did you mean {meant}/{model}?')
        return GeminiJudge(model)
    judges = {plugin.name: plugin for plugin in plugins(ENTRY_POINTS)}
    if provider not in judges:
        known = ", ".join(sorted(judges)) or "none"
        raise InputError(f"judge {model!r}: no provider {provider!r} is installed; installed: {known}")
    judge: Judge = judges[provider].load()(name)
    return judge


def use_judge(judge: Judge) -> AbstractContextManager[None]:
    """Use this judge within the block, unless another one is passed.

    It holds in this context: in its tasks, not in threads that it starts.
    """
    return judge_from(lambda: judge)


def default_judge() -> Judge:
    """Return the judge in use, else the process's run of `load_judge()` with the default cache."""
    judge: Judge | None = judge_in_use()
    return judge or _run(os.environ.get(MODEL_VARIABLE), default_cache_path().absolute())


@functools.cache
def _run(model: str | None, cache: Path) -> JudgeRun:
    return JudgeRun(load_judge(model), cache=cache)


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
    judge: Judge | None = judge_in_use()
    if judge is None or options.model is not None:
        return judge_run(options)
    if isinstance(judge, JudgeRun) and options == DEFAULTS:
        return judge
    return _with_options(judge, options, None)


def fresh_judge(options: JudgeOptions) -> JudgeRun:
    """Return the judge of a run, as `judge_of_run` does, that is asked anew: it has no cache.

    Raises:
        InputError: the model's provider is not installed.
    """
    judge: Judge | None = judge_in_use()
    known = judge if judge is not None and options.model is None else load_judge(options.model)
    return _with_options(known, options, None)


def _with_options(judge: Judge, options: JudgeOptions, cache: Callable[[], Path] | None) -> JudgeRun:
    return JudgeRun(
        judge,
        cache=cache,
        max_calls=options.max_calls,
        max_cost_usd=options.max_cost_usd,
        min_score=options.threshold,
        votes=options.votes or 1,
    )
