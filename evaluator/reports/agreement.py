"""How far a judge agrees with people, as JSON values and as tables for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from spangrade.evaluator.reports.tables import cell, p_value_text
from spangrade.evaluator.statistics.agreement.agreement import Agreement, CorrectedRate
from spangrade.evaluator.statistics.agreement.check import JudgeCheck
from spangrade.evaluator.statistics.agreement.statistics import AgreementRate, Kappa
from spangrade.tracer.base.canonical_json import record_json
from spangrade.tracer.base.terminal import counted

MAX_LISTED = 20  # sessions; the JSON has all of them


def agreement_json(agreement: Agreement) -> dict[str, Any]:
    """Return an agreement as JSON values; null is unknown."""
    return {**record_json(agreement), "is_representative": agreement.is_representative}


def agreement_tables(agreement: Agreement, *, every: bool) -> RenderableType:
    """Return an agreement as tables; unless `every`, only the first sessions that differ are listed."""
    counts = Table("", "people: pass", "people: fail", title=cell(agreement.metric), title_justify="left")
    confusion = agreement.confusion
    counts.add_row("judge: pass", str(confusion.pass_pass), str(confusion.pass_fail))
    counts.add_row("judge: fail", str(confusion.fail_pass), str(confusion.fail_fail))
    figures = Table("", "estimate", "95% interval", "of")
    for name, shown in (
        ("agreement", agreement.agreed),
        ("true positive rate", agreement.true_positive_rate),
        ("true negative rate", agreement.true_negative_rate),
        ("Cohen's kappa", agreement.kappa),
        ("judge's pass rate, with a label", agreement.labelled_rate),
        ("judge's pass rate, the others", agreement.others_rate),
        ("pass rate, corrected", agreement.corrected),
    ):
        figures.add_row(name, *_cells(shown))
    parts: list[RenderableType] = [counts, figures]
    if agreement.pairs:
        between = Table("people", "sessions", "agreement", "95% interval", "kappa", "95% interval of kappa")
        for pair in agreement.pairs:
            agreed, kappa = _cells(pair.agreed), _cells(pair.kappa)
            names = cell(f"{pair.first}, {pair.second}")
            between.add_row(names, str(pair.agreed.total), *agreed[:2], *kappa[:2])
        parts.append(between)
    if agreement.differing:
        number = len(agreement.differing)
        differing = Table("session", "judge", "people", "value", "reason", "notes")
        differing.title, differing.title_justify = f"Judged differently: {number}", "left"
        for one in agreement.differing[: None if every else MAX_LISTED]:
            verdicts = (
                _verdict(one.judge_passed),
                f"{_verdict(one.people_passed)} ({', '.join(one.authors)})",
            )
            texts = (one.session_id, *verdicts, one.value, one.reason, "; ".join(one.notes))
            differing.add_row(*map(cell, texts))
        parts.append(differing)
        if not every and number > MAX_LISTED:
            parts.append(cell(f"and {number - MAX_LISTED} more; --all lists them"))
    return Group(*parts, *map(cell, _lines(agreement)))


def check_tables(check: JudgeCheck, *, every: bool) -> RenderableType:
    """Return a check of a judge as tables; unless `every`, only the first changed verdicts are listed."""
    agreed = Table(
        "", "agrees with people", "95% interval", "of", title=cell(check.metric), title_justify="left"
    )
    agreed.add_row(cell(f"then: {check.judge_then or 'unknown'}"), *_cells(check.agreed(check.then)))
    agreed.add_row(cell(f"now: {check.judge}"), *_cells(check.agreed(check.now)))
    calibration = Table("value now", "passed by people", "95% interval", "of")
    for one in check.calibration:
        calibration.add_row(f"{one.value:g}", *_cells(one.people))
    number = len(check.changed)
    changed = f"{number} of {check.sessions} verdicts of the run {check.run} changed"
    drift = "the judge drifted" if check.has_drifted else "no drift shown"
    lines = [
        f"{changed}, {check.now_passed} of them to a pass ({_p_text(check.drift_p)}): {drift}.",
        f"The mean value changed by {check.value_change:+.3g}.",
    ]
    if number:
        listed = check.changed[: None if every else MAX_LISTED]
        more = f" and {number - len(listed)} more; --all lists them" if number > len(listed) else ""
        lines.append(f"Changed: {', '.join(listed)}{more}")
    if check.unknown:
        lines.append(f"Left out: {counted(len(check.unknown), 'session')} without a verdict now.")
    return Group(agreed, calibration, *map(cell, lines))


def _lines(agreement: Agreement) -> Iterator[str]:
    """Yield what the figures rest on, what was left out, and whether the labels can be a random share."""
    corrected = agreement.corrected
    yield (
        f"The corrected rate rests on {corrected.labels} labelled sessions and on the judge's verdicts of "
        f"{corrected.others} others (weight {corrected.weight:.2f})."
    )
    for number, text in (
        (len(agreement.ties), "on which as many people passed as failed"),
        (len(agreement.unjudged), "with a label and without a verdict of the judge"),
    ):
        if number:
            yield f"Left out: {number} {'session' if number == 1 else 'sessions'} {text}."
    if not agreement.is_representative:
        yield (
            f"The labelled sessions are not a random share: the judge passes more or fewer of the others "
            f"({_p_text(agreement.representative_p)}). Label some at random: spangrade label --queue sampled"
        )


def _p_text(p_value: float | None) -> str:
    text = p_value_text(p_value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def _cells(shown: AgreementRate | Kappa | CorrectedRate | None) -> tuple[str, str, str]:
    if shown is None:
        return ("–", "–", "–")
    of = f"{shown.number} of {shown.total}" if isinstance(shown, AgreementRate) else ""
    return (f"{shown.estimate:.3f}", f"{shown.low:.3f} to {shown.high:.3f}", of)


def _verdict(passed: bool) -> str:
    return "pass" if passed else "fail"
