"""Which judge is asked where none is given."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spangrade.evaluator.judge.cache import default_cache_path
from spangrade.evaluator.judge.models.gemini import DEFAULT_MODEL, GeminiJudge
from spangrade.evaluator.judge.protocol import Judge
from spangrade.evaluator.judge.run import JudgeRun
from spangrade.tracer.errors import InputError
from spangrade.tracer.plugins import plugins

MODEL_VARIABLE = "SPANGRADE_JUDGE_MODEL"
ENTRY_POINTS = "spangrade.judges"

_in_use: list[Judge] = []


def load_judge(model: str | None = None) -> Judge:
    """Return the judge that asks `model`, else `$SPANGRADE_JUDGE_MODEL`, else a current Gemini Flash.

    `provider/model` names a judge of the entry points `spangrade.judges` (a class that takes the model);
    a model without a provider is Gemini's.

    Raises:
        InputError: no such provider is installed.
    """
    model = model or os.environ.get(MODEL_VARIABLE) or DEFAULT_MODEL
    provider, slash, name = model.partition("/")
    if not slash:
        return GeminiJudge(model)
    judges = {plugin.name: plugin for plugin in plugins(ENTRY_POINTS)}
    if provider not in judges:
        known = ", ".join(sorted(judges)) or "none"
        raise InputError(f"judge {model!r}: no provider {provider!r} is installed; installed: {known}")
    judge: Judge = judges[provider].load()(name)
    return judge


@contextmanager
def use_judge(judge: Judge) -> Iterator[None]:
    """Within it, comparisons that are given no judge ask this one, in the whole process."""
    _in_use.append(judge)
    try:
        yield
    finally:
        _in_use.remove(judge)


def default_judge() -> Judge:
    """Return the judge in use, else one run of `load_judge()` for the process, with the default cache."""
    if _in_use:
        return _in_use[-1]
    return _run(os.environ.get(MODEL_VARIABLE), default_cache_path().absolute())


@functools.cache
def _run(model: str | None, cache: Path) -> JudgeRun:
    return JudgeRun(load_judge(model), cache=cache)
