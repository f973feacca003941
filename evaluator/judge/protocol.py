"""The seam of the judges: a question, a verdict, and the one method that answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from spangrade.tracer.base.errors import ExitCode, InputError, SpangradeError

Task = Literal["same_meaning", "satisfies", "holds", "rate", "simulate"]


class JudgeUnavailable(SpangradeError):  # noqa: N818 (it is a state of the surroundings, not a mistake)
    """There is no key for the judge: its metrics are inconclusive, neither passed nor failed."""

    exit_code = ExitCode.INCONCLUSIVE


class Paid(NamedTuple):
    """The price of one answer: tokens, and USD; None is unknown."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


class JudgeError(SpangradeError):
    """The judge could not be reached, or its answer does not have the requested structure.

    `paid` is what the provider counted for an answer that is of no use; None if there was no answer.
    """

    exit_code = ExitCode.BROKEN
    paid: Paid | None = None


class JudgeBudgetExceeded(JudgeError):  # noqa: N818 (the name says what happened)
    """The budget of the run does not allow another call."""


class UnknownJudgeModel(InputError):  # noqa: N818 (the name says what is wrong)
    """The judge's provider does not have the model: nothing can be judged until it is corrected."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a judge. `criterion` is the test author's text; `material` is data, never instructions.

    `material` holds named texts (the agent's reply, a transcript). `scale` is the lowest and the highest
    score of a rating, None for a yes-or-no question.
    """

    task: Task
    criterion: str
    material: tuple[tuple[str, str], ...]
    scale: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class UserQuestion(Question):
    """A question to a model that plays the user: `material` is the conversation, `criterion` the role.

    `parts` is the number of parts of the user's plan. `seed` tells repeats apart, also for the cache; it is
    sent to the providers whose models take one.
    """

    parts: int = 0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class AssertionQuestion(Question):
    """A question whether an assertion holds in a conversation of some `turns`, which the material numbers."""

    turns: int = 0


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's answer. `passed` is None for a rating, which has a score and no threshold of its own, and for
    an assertion that the material does not decide.

    The answer to a `UserQuestion` is `reason`, a `UserAnswer` as JSON text.
    `score` is the rating, or the judge's confidence that the criterion is met, from 0 to 1, if it gave one.
    Tokens and cost (USD) are those of the call that was paid for, None if unknown; `cached` means that
    nothing was paid this time.
    """

    passed: bool | None
    score: float | None
    reason: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    cached: bool = False


class Judge(Protocol):
    """A model that answers questions: one class per provider."""

    @property
    def name(self) -> str:
        """Provider and model, as in `gemini/gemini-3.8-flash`; part of the key of cached verdicts."""
        ...

    async def ask(self, question: Question) -> Judgement:
        """Return the verdict.

        Raises:
            JudgeUnavailable: there is no key.
            UnknownJudgeModel: the provider answers that it does not have the model.
            JudgeError: the call failed, or its answer is not valid.
        """
        ...


@contextmanager
def billed(paid: Paid | None) -> Iterator[None]:
    """Let a JudgeError about an answer say what the answer cost."""
    try:
        yield
    except JudgeError as error:
        error.paid = paid
        raise


@runtime_checkable
class CostLimit(Protocol):
    """An optional part of a judge: the highest cost of a call, before it is made."""

    def largest_cost_usd(self, question: Question) -> float | None:
        """Return the cost of the largest answer in USD, None if the model's price is unknown."""
        ...


@runtime_checkable
class ModelCheck(Protocol):
    """An optional part of a judge: it asks its provider for the model, which costs nothing."""

    async def check_model(self) -> None:
        """Raise UnknownJudgeModel if the provider answers that it does not have the model.

        Any other error is not an answer to that: it is left to the first question.
        """
        ...


@runtime_checkable
class KeyCheck(Protocol):
    """An optional part of a judge: it says at once that it has no key, before anything waits for it."""

    def require_key(self) -> None:
        """Raise JudgeUnavailable if nothing can be a key. No service is asked."""
        ...


def same_meaning(actual: str, expected: str) -> Question:
    """Ask whether two texts mean the same."""
    return _question("same_meaning", expected, {"actual": actual})


def satisfies(actual: str, statement: str) -> Question:
    """Ask whether a text satisfies a statement about it, such as "mentions SOC-2 compliance"."""
    return _question("satisfies", statement, {"actual": actual})


def shown_by(material: Mapping[str, str], statement: str) -> Question:
    """Ask whether a statement is true of a material of several texts."""
    return _question("satisfies", statement, material)


def holds(material: Mapping[str, str], assertion: str, turns: int) -> AssertionQuestion:
    """Ask whether an assertion about a conversation holds, and which of its turns show it."""
    asked = _question("holds", assertion, material)
    return AssertionQuestion(asked.task, asked.criterion, asked.material, turns=turns)


def rate(
    material: Mapping[str, str], instruction: str, ratings: Mapping[float, str], criteria: Mapping[str, str]
) -> Question:
    """Ask for a score. `ratings` maps a score to its meaning, `criteria` a criterion's name to its text.

    Raises:
        ValueError: there are fewer than two ratings.
    """
    if len(ratings) < 2:
        raise ValueError(f"a rating needs two scores or more, found {sorted(ratings)}")
    lines = [instruction]
    lines += ["", "Criteria:", *(f"- {name}: {text}" for name, text in criteria.items())] if criteria else []
    lines += ["", "Scores:", *(f"- {score:g}: {ratings[score]}" for score in sorted(ratings))]
    return rate_by(material, "\n".join(lines), (min(ratings), max(ratings)))


def rate_by(material: Mapping[str, str], rubric: str, scale: tuple[float, float]) -> Question:
    """Ask for a score within `scale`, its lowest and highest score, by a rubric that explains the scores."""
    return _question("rate", rubric, material, scale)


def _question(
    task: Task, criterion: str, material: Mapping[str, str], scale: tuple[float, float] | None = None
) -> Question:
    pairs = tuple((_sendable(name), _sendable(text)) for name, text in material.items())
    return Question(task, _sendable(criterion), pairs, scale)


def _sendable(text: str) -> str:
    """Replace each lone surrogate, which can neither be sent nor stored, by a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


class NoJudge:
    """A judge that is not asked, for a reason."""

    name = "none"

    def __init__(self, reason: str) -> None:
        self.reason = reason

    @property
    def unavailable(self) -> JudgeUnavailable:
        """Why no question can be answered, as of a `JudgeRun`."""
        return JudgeUnavailable(self.reason)

    async def ask(self, question: Question) -> Judgement:  # noqa: ARG002 (the protocol's)
        """Raise JudgeUnavailable with the reason."""
        raise JudgeUnavailable(self.reason)
