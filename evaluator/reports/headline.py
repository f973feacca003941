"""The ten lines that head a run or a comparison: what broke and how, what else moved, what to do next.

The terminal, summary.md, comparison.md and the comment on a pull request begin with them. Tables come after,
at a terminal only if they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.text import Text

from spangrade.evaluator.agents.earlier import FlippedSince
from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.grading.verdict import PRECEDENCE, Verdict
from spangrade.evaluator.reports.flips import lines_that_differ, sessions_of
from spangrade.evaluator.reports.repeats import repeats_line
from spangrade.evaluator.reports.tables import VERDICT_STYLES, cell
from spangrade.evaluator.statistics.clusters import what_went_wrong
from spangrade.evaluator.statistics.comparison.compare import Change, Comparison
from spangrade.evaluator.statistics.comparison.condition import (
    Compared,
    ConditionOutcome,
    ConditionResult,
    compared_text,
)
from spangrade.evaluator.statistics.comparison.sample import PASSED
from spangrade.tracer.base.errors import ExitCode
from spangrade.tracer.base.terminal import counted, printable
from spangrade.tracer.store.stored import Stored

_FAILING_LINES = 5  # what fails, of the ten
_MAX_NAMED = 5  # questions in a line
_MAX_LINE = 300  # characters

_MEANINGS = {
    ExitCode.PASSED: "all passed",
    ExitCode.FAILED: "a session failed",
    ExitCode.BAD_INPUT: "some of the input could not be read",
    ExitCode.BROKEN: "a metric or a judge broke",
    ExitCode.INCONCLUSIVE: "inconclusive: what was recorded does not decide it",
}


class HeadLine(NamedTuple):
    """A line; in a difference, `mark` is "-" for before and "+" for now. `verdict` gives its colour."""

    text: str
    mark: str = ""
    verdict: str = ""


class _NotPassed(NamedTuple):
    """A question that did not pass, or a session without one."""

    name: str
    verdict: str
    reason: str
    session_id: str | None
    before: str | None = None  # a session of the same question that passed


def head_of_run(
    run: Run,
    compared: Compared | None = None,
    flips: FlippedSince | None = None,
    *,
    stored: Stored | None = None,
    code: ExitCode | None = None,
    more: str = "",
    again: str = "",
) -> list[HeadLine]:
    """Return the lines that head a run and, if it was compared with another, what became of its questions.

    `compared` is a comparison that was asked for, `flips` what flipped since the run before.

    With `stored` they have what was said before and now. `code` is the exit code if it is not that of the
    run. `more` are options that the next command needs, such as `--db FILE`; `again` is the command that ran
    an agent, for what it can do next.
    """
    code = run.exit_code if code is None else code
    failing = [
        _NotPassed(one.question_id or one.session_id or "–", one.verdict, one.reason, one.session_id)
        for one in run.sessions
        if one.verdict in PRECEDENCE or (run.require_match and one.verdict is Verdict.UNMATCHED)
    ]
    lines = [HeadLine(str(run), verdict="" if code else Verdict.PASSED)]
    notes = list(_notes_of(run))
    if compared is not None:
        flipped = _flipped(compared.comparison)
        regressed = {one.name for one in flipped}
        before = dict.fromkeys(one.name for one in failing if one.name not in regressed)
        lines = [*_careful(compared.comparison), *lines, HeadLine(_against(compared))]
        notes = [*_changed_metrics(compared.comparison, before), *notes]
        failing = flipped or failing
    elif flips is not None:
        passed_before = flips.regressed
        found = f"{len(passed_before)} regressed, {len(flips.fixed)} fixed"
        found += f", {len(flips.not_known)} not known any more" if flips.not_known else ""
        passed_before = {**passed_before, **flips.not_known}
        lines.append(HeadLine(f"against {flips.earlier.name}: {found}"))
        before = dict.fromkeys(one.name for one in failing if one.name not in passed_before)
        notes = [*_unchanged(flips.fixed, before), *notes]
        flipped = [
            one._replace(before=passed_before[one.name]) for one in failing if one.name in passed_before
        ]
        failing = flipped or failing
    elif again:
        notes = ["compared with nothing: no earlier run of these questions", *notes]
    commands = (
        [f"{again} --failed{more}", f"if it is meant so, {again} --accept{more}"] if again and failing else []
    )
    end = _end(failing, notes, compared, stored, code, more, run.name or run.run_id, commands)
    return [*lines, *end]


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
    return [*lines, *_end(flipped, notes, compared, stored, code, "", second.label)]


def _careful(comparison: Comparison) -> list[HeadLine]:
    """Return the first line, if more than the agent's work differs."""
    text = "; ".join(comparison.careful)
    return [HeadLine(text, verdict=Verdict.INCONCLUSIVE)] if text else []


def shown(lines: Iterable[HeadLine]) -> Text:
    """Return the lines for a terminal, to be printed without wrapping."""
    texts = []
    for line in lines:
        text = cell(f"  {line.mark} {line.text}" if line.mark else line.text, newline=" ")
        style = {"-": "red", "+": "green"}.get(line.mark, VERDICT_STYLES.get(line.verdict, ""))
        if style:
            text.stylize(style)
        texts.append(text)
    return Text("\n").join(texts)


def as_markdown(lines: Iterable[HeadLine]) -> str:
    """Return the lines as a block of Markdown, in which nothing is markup, a link or a mention."""
    made = [
        f"{line.mark or ' '} {_cut(printable(line.text, newline=' '))}".replace("`", "'").rstrip()
        for line in lines
    ]
    return "\n".join(["```diff", *made, "```"])


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


def _end(
    failing: Sequence[_NotPassed],
    notes: Sequence[str],
    compared: Compared | None,
    stored: Stored | None,
    code: ExitCode,
    more: str,
    run: str,
    commands: Sequence[str] = (),
) -> Iterator[HeadLine]:
    ways = _failure_groups(failing)
    failing = [one for way in ways for one in way]
    yield from _failing_lines(ways, stored)
    notes = [
        *([f"{len(ways) - _FAILING_LINES} more ways to fail"] if len(ways) > _FAILING_LINES else []),
        *notes,
    ]
    if notes:
        yield HeadLine(f"also: {'; '.join(notes)}")
    if code or (compared is not None and compared.conditions):
        yield HeadLine(f"exit code {int(code)}: {_meaning(code, compared)}")
    if code:
        yield HeadLine(
            f"next: {' · '.join([*_next(failing, code, more, run), *commands, '--all lists the rest'])}"
        )


def _meaning(code: ExitCode, compared: Compared | None) -> str:
    """Return what an exit code means; where conditions decided, which did not hold, and why."""
    if compared is None or not compared.conditions or code != compared.exit_code():
        return _MEANINGS.get(code, "")
    decisive = [
        one for one in compared.conditions if one.outcome is not ConditionOutcome.PASSED
    ] or compared.conditions
    return " · ".join(
        f"condition '{one.condition}': {one.outcome.text}; {found_text(one)}" for one in decisive
    )


def _next(failing: Sequence[_NotPassed], code: ExitCode, more: str, run: str) -> list[str]:
    if code is ExitCode.INCONCLUSIVE and all(one.verdict == Verdict.INCONCLUSIVE for one in failing):
        return [f"spangrade lint{more}"]
    ids = [one.session_id for one in failing if one.session_id is not None]
    commands = [f"spangrade show {ids[0]}{more}"] if ids else []
    return [*commands, *([f"spangrade show {run}{more}"] if len(ids) > 1 else [])]


def _against(compared: Compared) -> str:
    comparison, conditions = compared
    return f"against {comparison.first.label}: {'; '.join(headlines(comparison, conditions))}"


def _flipped(comparison: Comparison) -> list[_NotPassed]:
    """Return the questions that passed before and do not now."""
    found = []
    for flip in dict.fromkeys((*comparison.regressed, *comparison.inconclusive_in_second)):
        now = next((one for one in flip.second if one.verdict != Verdict.PASSED), flip.second[0])
        before, _ = sessions_of(flip)
        found.append(_NotPassed(flip.key, now.verdict, now.reason, now.session_id, before))
    return found


def _failure_groups(failing: Sequence[_NotPassed]) -> list[list[_NotPassed]]:
    """Return what failed alike together: the gravest verdict first, then the most."""
    alike: dict[tuple[str, str], list[_NotPassed]] = {}
    for one in failing:
        alike.setdefault((one.verdict, what_went_wrong(one.reason)), []).append(one)
    gravity = {verdict: number for number, verdict in enumerate(PRECEDENCE)}
    ordered = sorted(
        alike.items(), key=lambda way: (gravity.get(Verdict(way[0][0]), 9), -len(way[1]), way[0][1])
    )
    return [each for _, each in ordered]


def _failing_lines(ways: Sequence[Sequence[_NotPassed]], stored: Stored | None) -> Iterator[HeadLine]:
    """Yield a line for each way to fail and, while there is room, what differs in its first session."""
    room = _FAILING_LINES - len(ways)
    for way in ways[:_FAILING_LINES]:
        first = way[0]
        names = dict.fromkeys(one.name for one in way)
        what = first.reason if len(way) == 1 else what_went_wrong(first.reason)
        yield HeadLine(_cut(f"{first.verdict} {_named(names)}: {what}"), verdict=first.verdict)
        differing: list[tuple[str, str]] = []
        if first.before is not None and first.session_id is not None and stored is not None and room > 0:
            differing = lines_that_differ(first.before, first.session_id, stored)
        for mark, text in differing[:room]:
            yield HeadLine(_cut(text), mark)
        room -= len(differing[:room])


def _changed_metrics(comparison: Comparison, before: Iterable[str]) -> Iterator[str]:
    """Yield what else is not as before."""
    yield from _unchanged([one.key for one in comparison.fixed], before)
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
            yield f"questions {what}: {_named(ids)}"
    yield from left_out(comparison)


def _unchanged(fixed: Sequence[str], before: Iterable[str]) -> Iterator[str]:
    if fixed:
        yield f"fixed {_named(fixed)}"
    if failed := list(before):
        yield f"not passed before, either: {_named(failed)}"


def _notes_of(run: Run) -> Iterator[str]:
    """Yield what else there is to know of a run."""
    if run.repeats is not None:
        yield f"repeats: {repeats_line(run.repeats)}"
        if run.repeats.flaky:
            yield f"flaky: {_named([one.question for one in run.repeats.flaky])}"
    if run.unreviewed:
        yield f"{run.unreviewed} of {counted(run.questions, 'question')} nobody has reviewed"
    if run.judge_line:
        yield run.judge_line
    if run.price_overrides:
        yield f"priced by the settings: {', '.join(run.price_overrides)}"
    for name, number in run.root_agents.items():
        yield f"in {counted(number, 'session')}, {name}"


def _named(names: Iterable[str]) -> str:
    """Return names in a line, of many how many there are."""
    names = list(names)
    if len(names) == 1:
        return names[0]
    text = ", ".join(names[:_MAX_NAMED])
    return f"{len(names)} ({text}{', …' if len(names) > _MAX_NAMED else ''})"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_LINE else f"{text[: _MAX_LINE - 1]}…"
