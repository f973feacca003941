"""The ten lines that head a comparison, or a run compared with another: what flipped, and what moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.grading.verdict import PRECEDENCE, Verdict
from spangrade.evaluator.reports.flips import sessions_of
from spangrade.evaluator.reports.headline import (
    MEANINGS,
    HeadLine,
    NotPassed,
    failing_of,
    first_line,
    last_lines,
    named,
    notes_of,
    unchanged,
)
from spangrade.evaluator.statistics.comparison.compare import Change, Comparison
from spangrade.evaluator.statistics.comparison.condition import (
    Compared,
    ConditionOutcome,
    ConditionResult,
    compared_text,
)
from spangrade.evaluator.statistics.comparison.sample import PASSED
from spangrade.tracer.base.errors import ExitCode
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.store.store import Stored


def head_of_compared_run(
    run: Run,
    compared: Compared,
    *,
    stored: Stored | None = None,
    code: ExitCode | None = None,
    more: str = "",
    again: str = "",
) -> list[HeadLine]:
    """Return the lines that head a run, and the comparison that was asked for; see `head_of_run`."""
    code = run.exit_code if code is None else code
    failing = failing_of(run)
    flipped = _flipped(compared.comparison)
    regressed = {one.name for one in flipped}
    before = dict.fromkeys(one.name for one in failing if one.name not in regressed)
    notes = [*_changed_metrics(compared.comparison, before), *notes_of(run)]
    end = last_lines(
        flipped or failing,
        notes,
        run.name or run.run_id,
        code,
        stored=stored,
        meaning=_meaning(code, compared),
        more=more,
        again=again,
    )
    return [
        *_careful(compared.comparison),
        first_line(run, code),
        HeadLine(_against(compared)),
        *end,
    ]


def head_of_comparison(compared: Compared, code: ExitCode, stored: Stored | None = None) -> list[HeadLine]:
    """Return the lines that head a comparison."""
    second = compared.comparison.second
    counts = {
        verdict: sum(one.verdict == verdict for one in second.graded)
        for verdict in (Verdict.PASSED, *PRECEDENCE)
    }
    verdicts = ", ".join(f"{number} {verdict}" for verdict, number in counts.items() if number)
    lines = [
        *_careful(compared.comparison),
        HeadLine(
            f"{second.label}: {counted(len(second.graded), 'session')}{': ' if verdicts else ''}{verdicts}"
        ),
        HeadLine(_against(compared)),
    ]
    flipped = _flipped(compared.comparison)
    regressed = {one.name for one in flipped}
    before = [
        key
        for key, graded in second.by_key().items()
        if key not in regressed and any(one.verdict in (Verdict.FAILED, Verdict.BROKEN) for one in graded)
    ]
    notes = list(_changed_metrics(compared.comparison, before))
    meaning = _meaning(code, compared)
    return [*lines, *last_lines(flipped, notes, second.label, code, stored=stored, meaning=meaning)]


def _careful(comparison: Comparison) -> list[HeadLine]:
    """Return the first line, if more than the agent's work differs."""
    text = "; ".join(comparison.careful)
    return [HeadLine(text, verdict=Verdict.INCONCLUSIVE)] if text else []


def headlines(comparison: Comparison, conditions: Sequence[ConditionResult] = ()) -> list[str]:
    """Return what `passed` shows, if it is compared, and how many questions can be.

    Where a condition did not hold, no word of a test stands beside it that says less.
    """
    shown = comparison.headline
    if any(one.outcome is not ConditionOutcome.PASSED for one in conditions):
        shown = shown.partition(f": {Change.NONE}")[0]
    return [*([shown] if shown else []), compared_text(comparison)]


def found_text(condition: ConditionResult) -> str:
    """Return the expectation of a condition, and its reason."""
    return (
        f"expected at most {condition.accepted}; {condition.reason}"
        if condition.accepted
        else condition.reason
    )


def left_out(comparison: Comparison) -> Iterator[str]:
    """Yield which sessions are in neither sample, and which verdicts are older than their session."""
    if comparison.unrecorded:
        sessions = counted(comparison.unrecorded, "session")
        yield f"{sessions} without a recorded {comparison.by}, left out of both"
    for side, sample in (("first", comparison.first), ("second", comparison.second)):
        if sample.ungraded:
            yield f"{counted(sample.ungraded, 'session')} of the {side} never graded, left out"
        if sample.arrived_since:
            older = f"{counted(sample.arrived_since, 'verdict')} of the {side}"
            yield f"{older} given before more of the session arrived: grade again"


def _meaning(code: ExitCode, compared: Compared) -> str | None:
    """Return what an exit code means where conditions decided: which did not hold, and why; else None."""
    if not compared.conditions:
        return None
    if code != compared.exit_code():
        return MEANINGS.get(code, "")
    decisive = [
        one for one in compared.conditions if one.outcome is not ConditionOutcome.PASSED
    ] or compared.conditions
    return " · ".join(
        f"condition '{one.condition}': {one.outcome.text}; {found_text(one)}" for one in decisive
    )


def _against(compared: Compared) -> str:
    comparison, conditions = compared
    return f"against {comparison.first.label}: {'; '.join(headlines(comparison, conditions))}"


def _flipped(comparison: Comparison) -> list[NotPassed]:
    """Return the questions that passed before and do not now."""
    found = []
    for flip in dict.fromkeys((*comparison.regressed, *comparison.inconclusive_in_second)):
        now = next((one for one in flip.second if one.verdict != Verdict.PASSED), flip.second[0])
        before, _ = sessions_of(flip)
        found.append(NotPassed(flip.key, now.verdict, now.reason, now.session_id, before))
    return found


def _changed_metrics(comparison: Comparison, before: Iterable[str]) -> Iterator[str]:
    """Yield what else is not as before."""
    yield from unchanged([one.key for one in comparison.fixed], before)
    for change in comparison.metrics:
        if change.metric != PASSED and change.change in (Change.BETTER, Change.WORSE):
            means = " → ".join(
                "–" if mean is None else f"{mean:.4g}" for mean in (change.first, change.second)
            )
            yield f"{change.metric} {change.change} ({means})"
    for what, is_relaxed in (("relaxed", True), ("with other expectations", False)):
        ids = dict.fromkeys(
            one.question for one in comparison.changed_questions if one.is_relaxed is is_relaxed
        )
        if ids:
            yield f"questions {what}: {named(ids)}"
    yield from left_out(comparison)
