"""The judge: a model that answers questions about the meaning of texts."""

from spangrade.evaluator.judge.cache import VerdictCache, default_cache_path
from spangrade.evaluator.judge.choice import default_judge, load_judge, use_judge
from spangrade.evaluator.judge.models.gemini import GeminiJudge
from spangrade.evaluator.judge.models.openai_compatible import OpenAICompatibleJudge
from spangrade.evaluator.judge.protocol import (
    Judge,
    JudgeBudgetExceeded,
    JudgeError,
    JudgeUnavailable,
    Question,
    Verdict,
    rate,
    rate_by,
    same_meaning,
    satisfies,
)
from spangrade.evaluator.judge.run import JudgeRun, Spent

__all__ = [
    "GeminiJudge",
    "Judge",
    "JudgeBudgetExceeded",
    "JudgeError",
    "JudgeRun",
    "JudgeUnavailable",
    "OpenAICompatibleJudge",
    "Question",
    "Spent",
    "Verdict",
    "VerdictCache",
    "default_cache_path",
    "default_judge",
    "load_judge",
    "rate",
    "rate_by",
    "same_meaning",
    "satisfies",
    "use_judge",
]
