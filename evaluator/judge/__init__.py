"""The judge: a model that answers questions about the meaning of texts."""

from spangrade.evaluator.judge.cache import VerdictCache, default_cache_path
from spangrade.evaluator.judge.choice import default_judge, load_judge, use_judge
from spangrade.evaluator.judge.models.anthropic import AnthropicJudge
from spangrade.evaluator.judge.models.gemini import GeminiJudge
from spangrade.evaluator.judge.models.openai_compatible import OpenAICompatibleJudge
from spangrade.evaluator.judge.options import JudgeOptions, judge_run
from spangrade.evaluator.judge.protocol import (
    Judge,
    JudgeBudgetExceeded,
    JudgeError,
    JudgeUnavailable,
    Question,
    UnknownJudgeModel,
    Verdict,
    rate,
    rate_by,
    same_meaning,
    satisfies,
)
from spangrade.evaluator.judge.run import JudgeRun, Spent, total_spent

__all__ = [
    "AnthropicJudge",
    "GeminiJudge",
    "Judge",
    "JudgeBudgetExceeded",
    "JudgeError",
    "JudgeOptions",
    "JudgeRun",
    "JudgeUnavailable",
    "OpenAICompatibleJudge",
    "Question",
    "Spent",
    "UnknownJudgeModel",
    "Verdict",
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
