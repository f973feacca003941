"""The seam of the judges: a question, a verdict, and the one method that answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from spangrade.tracer.errors import ExitCode, SpangradeError

Task = Literal["same_meaning", "satisfies", "rate"]


class JudgeUnavailable(SpangradeError):  # noqa: N818 (it is a state of the surroundings, not a mistake)
    """No judge can be asked (no key): what needs one is undecided, neither passed nor failed."""

    exit_code = ExitCode.INCONCLUSIVE


class JudgeError(SpangradeError):
    """The judge could not be reached, or its answer is not the structure that it was asked for."""

    exit_code = ExitCode.BROKEN


class JudgeBudgetExceeded(JudgeError):  # noqa: N818 (says what happened to the budget)
    """The run may not ask the judge any more."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a judge is asked. `criterion` is the test's own word; `material` is data and never instruction.

    `material` holds named texts (what the agent said, a transcript). `scale` holds the lowest and the
    highest score of a rating and is None for a question of yes or no.
    """

    task: Task
    criterion: str
    material: tuple[tuple[str, str], ...]
    scale: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's answer. `passed` is None for a rating, which has a score and no threshold of its own.

    `score` is the rating, or how sure it is that the criterion is met, from 0 to 1, where the judge said so.
    Tokens and cost (USD) are what the answer cost when it was paid for, None where unknown; `cached` says
    that nothing was paid this time.
    """

    passed: bool | None
    score: float | None
    reason: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    cached: bool = False


class Judge(Protocol):
    """Whoever answers questions: one class per provider."""

    @property
    def name(self) -> str:
        """Provider and model, `gemini/gemini-3.8-flash`: verdicts are cached under it."""
        ...

    async def ask(self, question: Question) -> Verdict:
        """Return the verdict.

        Raises:
            JudgeUnavailable: there is no key to ask with.
            JudgeError: the question was asked and not answered as it should be.
        """
        ...


def same_meaning(actual: str, expected: str) -> Question:
    """Ask whether two texts mean the same."""
    return _question("same_meaning", expected, {"actual": actual})


def satisfies(actual: str, statement: str) -> Question:
    """Ask whether a text satisfies a statement about it, such as "mentions SOC-2 compliance"."""
    return _question("satisfies", statement, {"actual": actual})


def rate(
    material: Mapping[str, str], instruction: str, ratings: Mapping[float, str], criteria: Mapping[str, str]
) -> Question:
    """Ask for a score. `ratings` maps a score to its meaning, `criteria` a criterion's name to its text.

    Raises:
        ValueError: there are fewer than two ratings, so nothing to choose between.
    """
    if len(ratings) < 2:
        raise ValueError(f"a rating needs two scores or more to choose from, found {sorted(ratings)}")
    lines = [instruction]
    lines += ["", "Criteria:", *(f"- {name}: {text}" for name, text in criteria.items())] if criteria else []
    lines += ["", "Scores:", *(f"- {score:g}: {ratings[score]}" for score in sorted(ratings))]
    return rate_by(material, "\n".join(lines), (min(ratings), max(ratings)))


def rate_by(material: Mapping[str, str], rubric: str, scale: tuple[float, float]) -> Question:
    """Ask for a score from the lowest to the highest of `scale`, by a rubric that says what they mean."""
    return _question("rate", rubric, material, scale)


def _question(
    task: Task, criterion: str, material: Mapping[str, str], scale: tuple[float, float] | None = None
) -> Question:
    pairs = tuple((_sendable(name), _sendable(text)) for name, text in material.items())
    return Question(task, _sendable(criterion), pairs, scale)


def _sendable(text: str) -> str:
    """Put a question mark for each lone surrogate, which can neither be sent nor stored."""
    return text.encode("utf-8", "replace").decode("utf-8")
