"""pass@k and pass^k of questions that have several sessions, with 95% intervals.

Of a question with n sessions, c of which passed, an unbiased estimate of the chance that at least one of k
sessions passes is pass@k = 1 - C(n - c, k) / C(n, k), and of the chance that all k pass
pass^k = C(c, k) / C(n, k). The rate is the mean over the questions.

The interval is Agresti and Coull's for a share, with the number of independent observations that the
variance between the questions shows: two sessions of one question are no more than one if the question
decides their outcome. That number is at least the number of questions and at most that of sessions. The
variance is that with two questions more, one that always passes and one that never does: a few rare questions
decide it, and a sample may have none of them. Student's quantile stands in for the normal one, because it is
the variance of few questions. Below 20 questions there is no interval. tests/coverage_of_repeats.py measures
how often intervals contain the truth.

Sources: M. Chen et al., "Evaluating large language models trained on code", arXiv:2107.03374 (2021), formula
1, for pass@k. S. Yao et al., "τ-bench: a benchmark for tool-agent-user interaction in real-world domains",
arXiv:2406.12045 (2024), formula 1, for pass^k. A. Agresti, B. A. Coull, "Approximate is better than 'exact'
for interval estimation of binomial proportions", The American Statistician 52 (1998). E. L. Korn,
B. I. Graubard, "Confidence intervals for proportions with small expected number of positive counts estimated
from survey data", Survey Methodology 24 (1998), for the effective number of observations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import comb, fsum, sqrt
from statistics import fmean
from typing import NamedTuple

from spangrade.evaluator.statistics.intervals import QUANTILE

MIN_QUESTIONS = 20  # for an interval
_NUMBERS = (1, 2, 3, 4, 5, 8, 10, 16, 32, 64, 100)  # of sessions that rates are given for
_MAX_NAME = 80  # characters of a call with its arguments, in a line


class Tries(NamedTuple):
    """How many sessions a question has of one agent, and how many of them passed.

    `question` is known where it may have been asked several versions of an agent.
    """

    sessions: int
    passed: int
    question: str | None = None


class Rate(NamedTuple):
    """A mean over questions, and its 95% interval: None below 20 questions."""

    mean: float
    low: float | None
    high: float | None

    @property
    def text(self) -> str:
        """The rate with its interval: `85.0% (70.2% to 93.5%)`."""
        if self.low is None or self.high is None:
            return f"{self.mean:.1%}"
        return f"{self.mean:.1%} ({self.low:.1%} to {self.high:.1%})"


class RatesOfK(NamedTuple):
    """The rates for `k` sessions, over `questions`: the same for every k."""

    k: int
    questions: int
    pass_at_k: Rate  # at least one of k passes
    pass_hat_k: Rate  # all k pass


def pass_at_k(tries: Tries, k: int) -> float:
    """Return the estimated chance that at least one of `k` sessions passes, of at least `k` sessions."""
    return 1.0 - comb(tries.sessions - tries.passed, k) / comb(tries.sessions, k)


def pass_hat_k(tries: Tries, k: int) -> float:
    """Return the estimated chance that all of `k` sessions pass, of at least `k` sessions."""
    return comb(tries.passed, k) / comb(tries.sessions, k)


def rates(questions: Iterable[Tries]) -> tuple[RatesOfK, ...]:
    """Return the rates of the questions that have several sessions, for growing numbers of sessions.

    The rate of a question that several versions of an agent were asked is the mean of theirs.

    The largest number is that which half of the questions have; all rates are of the questions that have so
    many, because a rate of other questions could rise where the chance falls.
    """
    repeated = sorted((one for one in questions if one.sessions > 1), key=lambda one: one[:2])
    if not repeated:
        return ()
    most = repeated[len(repeated) // 2].sessions
    numbers = sorted({k for k in _NUMBERS if k < most} | {most})
    shared = [one for one in repeated if one.sessions >= most]
    return tuple(_rates_of(k, shared) for k in numbers)


def _rates_of(k: int, questions: Sequence[Tries]) -> RatesOfK:
    sessions = sum(one.sessions for one in questions)
    by_question: dict[object, list[Tries]] = {}
    for place, one in enumerate(questions):
        by_question.setdefault(place if one.question is None else one.question, []).append(one)
    at, hat = (
        [fmean(chance(one, k) for one in each) for each in by_question.values()]
        for chance in (pass_at_k, pass_hat_k)
    )
    return RatesOfK(k, len(by_question), rate(at, sessions), rate(hat, sessions))


def rate(shares: Sequence[float], sessions: int) -> Rate:
    """Return the mean of the shares of questions, which have this number of `sessions` together."""
    questions, mean = len(shares), fmean(shares)
    if questions < MIN_QUESTIONS:
        return Rate(mean, None, None)
    quantile = _students_quantile(questions - 1)
    added = [*shares, 0.0, 1.0]
    center = fmean(added)
    variance = fsum((share - center) ** 2 for share in added) / (len(added) - 1)
    number = min(max(questions * center * (1 - center) / variance, questions), sessions)
    center = (mean * number + quantile**2 / 2) / (number + quantile**2)
    half = quantile * sqrt(center * (1 - center) / (number + quantile**2))
    return Rate(mean, max(center - half, 0.0), min(center + half, 1.0))


def _students_quantile(freedom: int) -> float:
    """Return the 0.975 quantile of Student's t with 19 degrees of freedom or more, to four digits.

    Its expansion around the normal quantile: M. Abramowitz, I. A. Stegun, "Handbook of mathematical
    functions" (1964), formula 26.7.5, without its last two terms.
    """
    z = QUANTILE
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


class Try(NamedTuple):
    """One session of a question: whether it passed, and if not, why.

    `path` has the names of its steps, `calls` those of its tool calls with their arguments; each is None if
    it is not known.
    """

    passed: bool
    reason: str
    path: tuple[str, ...] | None
    calls: tuple[str, ...] | None


class Branch(NamedTuple):
    """A step that sessions take, the number of these sessions, and how many of them passed."""

    name: str
    sessions: int
    passed: int


class Flaky(NamedTuple):
    """A question of which some sessions pass and some do not, and the step at which those part.

    `part_at` says what `branches` are at the number `step`: a `step` of the trajectories or, where these have
    the same names, a `call` of a tool with its arguments. It is empty, and `step` None, if neither differs or
    is known. `reason` is that of a session that did not pass.
    """

    question: str
    sessions: int
    passed: int
    part_at: str
    step: int | None
    branches: tuple[Branch, ...]
    reason: str

    @property
    def where(self) -> str:
        """Where the sessions part: `step 3: refund (4 of 4 passed), the end (0 of 2 passed)`."""
        if self.step is None:
            return ""
        shown = (
            f"{one.name if len(one.name) <= _MAX_NAME else one.name[: _MAX_NAME - 1] + '…'} "
            f"({one.passed} of {one.sessions} passed)"
            for one in self.branches
        )
        return f"{self.part_at} {self.step}: {', '.join(shown)}"


def flaky(question: str, tries: Sequence[Try]) -> Flaky | None:
    """Return a question as flaky; None unless some of its sessions passed and some did not."""
    from spangrade.evaluator.statistics.comparison.graded import where_paths_differ  # tables do without

    passed = sum(one.passed for one in tries)
    if not 0 < passed < len(tries):
        return None
    reason = next(one.reason for one in tries if not one.passed)
    for part_at in ("step", "call"):
        paths = ((one, one.path if part_at == "step" else one.calls) for one in tries)
        known = [(one, path) for one, path in paths if path is not None]
        parted = where_paths_differ([path for _, path in known])
        if parted is not None:
            branches: dict[str, Branch] = {}
            for (one, _), name in zip(known, parted.names, strict=True):
                before = branches.get(name, Branch(name, 0, 0))
                branches[name] = Branch(name, before.sessions + 1, before.passed + one.passed)
            ordered = sorted(branches.values(), key=lambda one: (-one.passed, -one.sessions, one.name))
            return Flaky(question, len(tries), passed, part_at, parted.step, tuple(ordered), reason)
    return Flaky(question, len(tries), passed, "", None, (), reason)
