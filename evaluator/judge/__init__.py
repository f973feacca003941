"""The judge: a model that answers questions about the meaning of texts.

The names are imported when they are first used: the options of a judge need no client of a model.

It stands on `converters` and `tracer`.
Begin with `protocol.Judge`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spangrade.evaluator.judge.cache import VerdictCache, default_cache_path
    from spangrade.evaluator.judge.choice import default_judge, judge_run, load_judge, use_judge
    from spangrade.evaluator.judge.models.anthropic import AnthropicJudge
    from spangrade.evaluator.judge.models.gemini import GeminiJudge
    from spangrade.evaluator.judge.models.openai_compatible import OpenAICompatibleJudge
    from spangrade.evaluator.judge.options import JudgeOptions
    from spangrade.evaluator.judge.protocol import (
        Judge,
        JudgeBudgetExceeded,
        JudgeError,
        Judgement,
        JudgeUnavailable,
        Question,
        UnknownJudgeModel,
        rate,
        rate_by,
        same_meaning,
        satisfies,
    )
    from spangrade.evaluator.judge.run import JudgeRun, Spent, total_spent

_HOMES = {
    "cache": ("VerdictCache", "default_cache_path"),
    "choice": ("default_judge", "judge_run", "load_judge", "use_judge"),
    "models.anthropic": ("AnthropicJudge",),
    "models.gemini": ("GeminiJudge",),
    "models.openai_compatible": ("OpenAICompatibleJudge",),
    "options": ("JudgeOptions",),
    "protocol": (
        "Judge",
        "JudgeBudgetExceeded",
        "JudgeError",
        "JudgeUnavailable",
        "Question",
        "UnknownJudgeModel",
        "Judgement",
        "rate",
        "rate_by",
        "same_meaning",
        "satisfies",
    ),
    "run": ("JudgeRun", "Spent", "total_spent"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AnthropicJudge",
    "GeminiJudge",
    "Judge",
    "JudgeBudgetExceeded",
    "JudgeError",
    "JudgeOptions",
    "JudgeRun",
    "JudgeUnavailable",
    "Judgement",
    "OpenAICompatibleJudge",
    "Question",
    "Spent",
    "UnknownJudgeModel",
    "VerdictCache",
    "default_cache_path",
    "default_judge",
    "judge_run",
    "load_judge",
    "rate",
    "rate_by",
    "same_meaning",
    "satisfies",
    "total_spent",
    "use_judge",
]


if not TYPE_CHECKING:  # else every name would have the type Any

    def __getattr__(name: str) -> Any:
        """Import a name when it is first used."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
