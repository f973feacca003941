"""`--fail-if 'METRIC worse by MARGIN'`: a test of non-inferiority.

The second run fails if the 95% interval of its loss lies wholly beyond the margin, and passes if it lies
wholly within. Else the data do not settle it. G. Piaggio et al., "Reporting of noninferiority and equivalence
randomized trials", JAMA 308 (2012), figure 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from spangrade.evaluator.statistics.comparison.compare import Comparison, MetricChange
from spangrade.evaluator.statistics.comparison.differences import Difference, TooLittle
from spangrade.tracer.errors import ExitCode, InputError

_GATE = re.compile(r"(?P<metric>\S+) +worse +by +(?P<margin>\d+(\.\d+)?|\.\d+) *(?P<percent>%?)")


class Outcome(StrEnum):
    """What the data say of a gate."""

    PASSED = "passed"
    FAILED = "failed"
    UNSETTLED = "inconclusive"


class Gate(NamedTuple):
    """A metric and the loss that is accepted: in its unit or, if `is_relative`, as a share of its value."""

    text: str
    metric: str
    margin: float
    is_relative: bool


class GateResult(NamedTuple):
    """What a gate came to, and why. `questions` would settle it, None if that is not known."""

    gate: str
    outcome: Outcome
    reason: str
    questions: int | None = None


class Compared(NamedTuple):
    """What differs between two samples, and what the requested gates say of it."""

    comparison: Comparison
    gates: tuple[GateResult, ...] = ()

    def exit_code(self, *, inconclusive_ok: bool = False) -> ExitCode:
        """Return 1 if a gate failed, else 4 if one is not settled and that is not accepted, else 0."""
        outcomes = {result.outcome for result in self.gates}
        if Outcome.FAILED in outcomes:
            return ExitCode.FAILED
        if Outcome.UNSETTLED in outcomes and not inconclusive_ok:
            return ExitCode.INCONCLUSIVE
        return ExitCode.PASSED


def parse_gate(text: str) -> Gate:
    """Return the gate of a text such as `tool_recall worse by 0.02` or `cost worse by 10%`.

    Raises InputError for any other text.
    """
    found = _GATE.fullmatch(text.strip())
    if found is None:
        raise InputError(f"--fail-if {text!r}: expected METRIC worse by MARGIN, as in 'passed worse by 0.05'")
    margin = float(found["margin"])
    is_relative = bool(found["percent"])
    return Gate(text.strip(), found["metric"], margin / 100 if is_relative else margin, is_relative)


def judge(gate: Gate, comparison: Comparison) -> GateResult:
    """Return what a comparison says of a gate.

    Raises InputError if the metric is not in both or has no better direction, and for a margin of
    another kind than its differences.
    """
    change = next((each for each in comparison.metrics if each.metric == gate.metric), None)
    if change is None:
        names = ", ".join(each.metric for each in comparison.metrics)
        raise InputError(f"--fail-if {gate.text!r}: {gate.metric} is not in both; there are {names}")
    if change.measured.higher_is_better is None:
        raise InputError(f"--fail-if {gate.text!r}: {gate.metric} has no better direction")
    if isinstance(change.difference, TooLittle):
        reason = f"too little data: {change.difference.reason}"
        return GateResult(gate.text, Outcome.UNSETTLED, reason, change.difference.needed)
    low, loss, high = _loss(gate, change, change.difference)
    interval = f"worse by {loss:.3g} ({low:.3g} to {high:.3g})"
    if low > gate.margin:
        return GateResult(gate.text, Outcome.FAILED, interval)
    if high <= gate.margin:
        return GateResult(gate.text, Outcome.PASSED, interval)
    needed = _questions_needed(gate.margin, low, loss, high, change.difference.questions)
    hint = "" if needed is None else f"; about {needed} questions would settle it"
    return GateResult(gate.text, Outcome.UNSETTLED, f"{interval}{hint}", needed)


def _loss(gate: Gate, change: MetricChange, difference: Difference) -> Sequence[float]:
    """Return the interval's lower end, the estimate and its upper end of how much worse the second run is."""
    values = [difference.low, difference.estimate, difference.high]
    is_unbounded = math.isinf(change.measured.bounds[1])
    if gate.is_relative and not is_unbounded:
        raise InputError(f"--fail-if {gate.text!r}: {gate.metric} is a share; expected a margin such as 0.05")
    if difference.is_ratio:
        values = [value - 1 for value in values]
    if is_unbounded and gate.is_relative is not difference.is_ratio and any(values):
        kind = "a percentage, such as 10%" if difference.is_ratio else "a number in its unit"
        raise InputError(f"--fail-if {gate.text!r}: {gate.metric} is compared otherwise; expected {kind}")
    return [0.0 - value for value in reversed(values)] if change.measured.higher_is_better else values


def _questions_needed(margin: float, low: float, loss: float, high: float, questions: int) -> int | None:
    """Return how many questions would settle a gate if the loss stayed the same.

    The width of an interval shrinks with the square root of their number. None if the loss is the margin.
    """
    distance = abs(margin - loss)
    half = (high - low) / 2
    if distance <= half / 1000:
        return None
    return max(math.ceil(questions * (half / distance) ** 2), questions + 1)
