"""The ten lines that head a run: what broke and how, what else moved, what to do next.

The terminal, summary.md, comparison.md and the comment on a pull request begin with them. Tables come after,
at a terminal only if they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.grading.verdict import PRECEDENCE, Verdict
from spangrade.evaluator.reports.changed_lines import lines_that_differ
from spangrade.evaluator.reports.repeats import repeats_line
from spangrade.evaluator.reports.tables import VERDICT_STYLES, cell
from spangrade.evaluator.statistics.reasons import what_went_wrong
from spangrade.tracer.base.errors import ExitCode
from spangrade.tracer.base.terminal import counted, printable
from spangrade.tracer.store.store import Stored

if TYPE_CHECKING:
    from spangrade.evaluator.agents.earlier import FlippedSince

_FAILING_LINES = 5  # what fails, of the ten
_MAX_NAMED = 5  # questions in a line
_MAX_LINE = 300  # characters

MEANINGS = {
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


class NotPassed(NamedTuple):
    """A question that did not pass, or a session without one."""

    name: str
    verdict: str
    reason: str
    session_id: str | None
    before: str | None = None  # a session of the same question that passed


def head_of_run(
    run: Run,
    flips: FlippedSince | None = None,
    *,
    stored: Stored | None = None,
    code: ExitCode | None = None,
    more: str = "",
    again: str = "",
) -> list[HeadLine]:
    """Return the lines that head a run, with `flips` what flipped since the run before.

    With `stored` they have what was said before and now. `code` is the exit code if it is not that of the
    run. `more` are options that the next command needs, such as `--db FILE`; `again` is the command that ran
    an agent, for what it can do next.
    """
    code = run.exit_code if code is None else code
    failing = failing_of(run)
    lines = [first_line(run, code)]
    notes = list(notes_of(run))
    if flips is not None:
        passed_before = flips.regressed
        found = f"{len(passed_before)} regressed, {len(flips.fixed)} fixed"
        found += f", {len(flips.not_known)} not known any more" if flips.not_known else ""
        passed_before = {**passed_before, **flips.not_known}
        lines.append(HeadLine(f"against {flips.earlier.name}: {found}"))
        before = dict.fromkeys(one.name for one in failing if one.name not in passed_before)
        notes = [*unchanged(flips.fixed, before), *notes]
        flipped = [
            one._replace(before=passed_before[one.name]) for one in failing if one.name in passed_before
        ]
        failing = flipped or failing
    elif again:
        notes = ["compared with nothing: no earlier run of these questions", *notes]
    end = last_lines(failing, notes, run.name or run.run_id, code, stored=stored, more=more, again=again)
    return [*lines, *end]


def first_line(run: Run, code: ExitCode) -> HeadLine:
    """Return the totals of a run."""
    return HeadLine(str(run), verdict="" if code else Verdict.PASSED)


def failing_of(run: Run) -> list[NotPassed]:
    """Return the sessions and questions of a run that did not pass."""
    return [
        NotPassed(one.question_id or one.session_id or "–", one.verdict, one.reason, one.session_id)
        for one in run.sessions
        if one.verdict in PRECEDENCE or (run.require_match and one.verdict is Verdict.UNMATCHED)
    ]


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


def last_lines(
    failing: Sequence[NotPassed],
    notes: Sequence[str],
    run: str,
    code: ExitCode,
    *,
    stored: Stored | None = None,
    meaning: str | None = None,
    more: str = "",
    again: str = "",
) -> Iterator[HeadLine]:
    """Yield what fails and how, what else there is to know, the exit code, and what to do next.

    `meaning` is that of the exit code, which is then there if it is 0, too.
    """
    ways = _failure_groups(failing)
    failing = [one for way in ways for one in way]
    yield from _failing_lines(ways, stored)
    notes = [
        *([f"{len(ways) - _FAILING_LINES} more ways to fail"] if len(ways) > _FAILING_LINES else []),
        *notes,
    ]
    if notes:
        yield HeadLine(f"also: {'; '.join(notes)}")
    if code or meaning is not None:
        yield HeadLine(f"exit code {int(code)}: {MEANINGS.get(code, '') if meaning is None else meaning}")
    if code:
        commands = [f"{again} --failed{more}", f"if it is meant so, {again} --accept{more}"]
        following = [*_next(failing, code, more, run), *(commands if again and failing else [])]
        yield HeadLine(f"next: {' · '.join([*following, '--all lists the rest'])}")


def _next(failing: Sequence[NotPassed], code: ExitCode, more: str, run: str) -> list[str]:
    if code is ExitCode.INCONCLUSIVE and all(one.verdict == Verdict.INCONCLUSIVE for one in failing):
        return [f"spangrade lint{more}"]
    ids = [one.session_id for one in failing if one.session_id is not None]
    commands = [f"spangrade show {ids[0]}{more}"] if ids else []
    return [*commands, *([f"spangrade show {run}{more}"] if len(ids) > 1 else [])]


def _failure_groups(failing: Sequence[NotPassed]) -> list[list[NotPassed]]:
    """Return what failed alike together: the gravest verdict first, then the most."""
    alike: dict[tuple[str, str], list[NotPassed]] = {}
    wrong = {reason: what_went_wrong(reason) for reason in {one.reason for one in failing}}
    for one in failing:
        alike.setdefault((one.verdict, wrong[one.reason]), []).append(one)
    gravity = {verdict: number for number, verdict in enumerate(PRECEDENCE)}
    ordered = sorted(
        alike.items(), key=lambda way: (gravity.get(Verdict(way[0][0]), 9), -len(way[1]), way[0][1])
    )
    return [each for _, each in ordered]


def _failing_lines(ways: Sequence[Sequence[NotPassed]], stored: Stored | None) -> Iterator[HeadLine]:
    """Yield a line for each way to fail and, while there is room, what differs in its first session."""
    room = _FAILING_LINES - len(ways)
    for way in ways[:_FAILING_LINES]:
        first = way[0]
        names = dict.fromkeys(one.name for one in way)
        what = first.reason if len(way) == 1 else what_went_wrong(first.reason)
        yield HeadLine(_cut(f"{first.verdict} {named(names)}: {what}"), verdict=first.verdict)
        differing: list[tuple[str, str]] = []
        if first.before is not None and first.session_id is not None and stored is not None and room > 0:
            differing = lines_that_differ(first.before, first.session_id, stored)
        for mark, text in differing[:room]:
            yield HeadLine(_cut(text), mark)
        room -= len(differing[:room])


def unchanged(fixed: Sequence[str], before: Iterable[str]) -> Iterator[str]:
    """Yield what is fixed, and what did not pass before, either."""
    if fixed:
        yield f"fixed {named(fixed)}"
    if failed := list(before):
        yield f"not passed before, either: {named(failed)}"


def notes_of(run: Run) -> Iterator[str]:
    """Yield what else there is to know of a run."""
    if run.repeats is not None:
        yield f"repeats: {repeats_line(run.repeats)}"
        if run.repeats.flaky:
            yield f"flaky: {named([one.question for one in run.repeats.flaky])}"
    if run.unreviewed:
        yield f"{run.unreviewed} of {counted(run.questions, 'question')} nobody has reviewed"
    if run.judge_line:
        yield run.judge_line
    if run.price_overrides:
        yield f"priced by the settings: {', '.join(run.price_overrides)}"
    for name, number in run.root_agents.items():
        yield f"in {counted(number, 'session')}, {name}"


def named(names: Iterable[str]) -> str:
    """Return names in a line, of many how many there are."""
    names = list(names)
    if len(names) == 1:
        return names[0]
    text = ", ".join(names[:_MAX_NAMED])
    return f"{len(names)} ({text}{', …' if len(names) > _MAX_NAMED else ''})"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_LINE else f"{text[: _MAX_LINE - 1]}…"
