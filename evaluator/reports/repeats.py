"""The repeats of a run, as texts, as rows of tables, and as properties of JUnit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from spangrade.evaluator.statistics.repeats.rates import MIN_QUESTIONS
from spangrade.tracer.base.terminal import counted

if TYPE_CHECKING:
    from spangrade.evaluator.statistics.repeats.repeats import Repeats

MAX_FLAKY = 20  # questions; the JSON has all of them

RATE_COLUMNS = ("k", "pass@k (95% interval)", "pass^k (95% interval)", "questions")
FLAKY_COLUMNS = ("question", "passed", "sessions part at", "reason")


def rate_rows(repeats: Repeats) -> list[tuple[str, ...]]:
    """Return the rates by `RATE_COLUMNS`."""
    return [
        (str(one.k), one.pass_at_k.text, one.pass_hat_k.text, str(one.questions)) for one in repeats.rates
    ]


def flaky_rows(repeats: Repeats) -> list[tuple[str, ...]]:
    """Return the first flaky questions by `FLAKY_COLUMNS`."""
    return [
        (one.question, f"{one.passed} of {one.sessions}", one.where or "–", one.reason or "–")
        for one in repeats.flaky[:MAX_FLAKY]
    ]


def repeats_line(repeats: Repeats) -> str:
    """Return the questions and sessions that the rates are of, in one line."""
    text = f"{counted(repeats.questions, 'question')} with {counted(repeats.sessions, 'session')}"
    if variants := [
        f"{number} {name}"
        for number, name in (
            (repeats.versions, "versions"),
            (repeats.prompts, "prompts"),
            (repeats.models, "models"),
            (repeats.runs, "runs"),
        )
        if number > 1
    ]:
        text += f" of {' and '.join(variants)}, each apart"
    if repeats.undecided:
        text += f"; {counted(repeats.undecided, 'session')} neither passed nor failed: not passed here"
    if any(one.questions < MIN_QUESTIONS for one in repeats.rates):
        text += f"; an interval needs {MIN_QUESTIONS} questions"
    return text


def condition_line(repeats: Repeats) -> str:
    """Return which condition fits an agent with these repeats."""
    why = (
        f"{counted(repeats.flaky_questions, 'question')} passed at times"
        if repeats.flaky
        else "all repeats agree"
    )
    return f"{why}: `--fail-if '{repeats.condition}'` fits in a comparison with this run"


def more_flaky(repeats: Repeats) -> str:
    """Return how many flaky questions are not listed; empty if all are."""
    more = len(repeats.flaky) - MAX_FLAKY
    return f"and {more} more flaky; the JSON has all of them" if more > 0 else ""


def repeats_properties(repeats: Repeats) -> Iterator[tuple[str, str]]:
    """Yield the properties of a JUnit suite: the rates, and the flaky questions in one."""
    for one in repeats.rates:
        yield f"pass@{one.k}", one.pass_at_k.text
        yield f"pass^{one.k}", one.pass_hat_k.text
    if repeats.flaky:
        listed = "; ".join(f"{row[0]} ({row[1]})" for row in flaky_rows(repeats))
        more = more_flaky(repeats)
        yield "flaky", f"{listed}; {more}" if more else listed
