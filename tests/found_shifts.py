"""Whether a comparison finds what a defect shifts and nothing else, by simulation at the level of scores.

`python tests/found_shifts.py 200` prints for each defect in which share of 200 repetitions the metrics
found worse are exactly those that it implies, and exits with 1 if a share is below 95%, or 86% if the
defect does not lower `passed`: .ci/long runs it.

Each repetition compares two runs of 400 questions. A defect lowers the mean of what it implies by 15 points
(raises tokens, cost and seconds by 15%). The metrics of a group read the same calls, steps, reply or usage:
one latent value of the session decides all of them. Were all metrics independent, one that no defect shifts
would be found in almost 5%, the rate that Holm's correction allows; with a correlation of 0.8 in a group too.
`passed` is tested alone: where a defect does not lower it, it is found in up to 5% besides.
"""

from __future__ import annotations

import sys
from math import inf, sqrt
from typing import NamedTuple

import numpy as np
import scipy
from coverage_of_intervals import binary, rating, recall

from spangrade.evaluator.statistics.comparison.compare import Change, compare
from spangrade.evaluator.statistics.comparison.graded import Graded
from spangrade.evaluator.statistics.comparison.sample import PASSED, Measured, Sample

QUESTIONS = 400
SHIFT = 0.15
LOWEST = 0.95
LOWEST_OF_TWO = 0.86  # of two families with an error of 5% each, and two standard errors of 200 repetitions
OF_QUESTION = 0.8  # the share of a session's variance that its question decides, in both runs

LOWER_IS_BETTER = Measured(False, (0.0, inf), "USD")
SHARE = Measured(True, (0.0, 1.0), "share")


class Simulated(NamedTuple):
    """How a metric is distributed: `usage` is skewed and has no highest value."""

    group: str
    kind: str
    mean: float

    @property
    def measured(self) -> Measured:
        """What a run records of it."""
        return LOWER_IS_BETTER if self.kind == "usage" else SHARE


METRICS = {
    PASSED: Simulated("calls", "binary", 0.8),
    "tools:exact": Simulated("calls", "binary", 0.8),
    "tools:in_order": Simulated("calls", "binary", 0.85),
    "tools:recall": Simulated("calls", "recall", 0.9),
    "tools:precision": Simulated("calls", "recall", 0.9),
    "trajectory:exact": Simulated("steps", "binary", 0.8),
    "trajectory_accuracy": Simulated("steps", "rating", 0.9),
    "agent_routing": Simulated("steps", "binary", 0.95),
    "state_management_fidelity": Simulated("state", "recall", 0.9),
    "tool_success_rate": Simulated("calls", "recall", 0.95),
    "final_response_match": Simulated("reply", "binary", 0.7),
    "response_match": Simulated("reply", "rating", 0.7),
    "token_usage": Simulated("usage", "usage", 1000.0),
    "cost": Simulated("usage", "usage", 0.01),
    "latency_metrics": Simulated("usage", "usage", 5.0),
}
ALL_CALLS = {PASSED, "tools:exact", "tools:in_order", "tools:recall"}
USAGE = {"token_usage", "cost", "latency_metrics"}
# What each defect implies, listed before any is simulated.
DEFECTS: dict[str, set[str]] = {
    "none": set(),
    "wrong argument": {*ALL_CALLS, "tools:precision"},
    "missing call": {*ALL_CALLS, "trajectory:exact", "trajectory_accuracy"},
    "repeated call": {PASSED, "tools:exact", "tools:precision", "trajectory:exact", *USAGE},
    "another agent": {PASSED, "agent_routing", "trajectory:exact", "trajectory_accuracy"},
    "state left out": {PASSED, "state_management_fidelity"},
    "failing tool": {*ALL_CALLS, "tool_success_rate"},
    "contradicted reply": {PASSED, "final_response_match", "response_match"},
    "dearer": USAGE,
}


def runs(shifted: set[str], random: np.random.Generator, questions: int = QUESTIONS) -> tuple[Sample, Sample]:
    """Return two runs of the same questions, of which the second has these metrics shifted."""
    groups = sorted({metric.group for metric in METRICS.values()})
    of_question = {group: random.standard_normal(questions) for group in groups}
    samples = []
    for is_second in (False, True):
        of_session = {group: random.standard_normal(questions) for group in groups}
        values = {}
        for name, metric in METRICS.items():
            own = sqrt(1 - OF_QUESTION) * of_session[metric.group]
            normal = sqrt(OF_QUESTION) * of_question[metric.group] + own
            drawn = _values(metric, normal, is_second and name in shifted)
            values[name] = {f"q{number:03}": (value,) for number, value in enumerate(drawn)}
        measured = {name: metric.measured for name, metric in METRICS.items()}
        graded = tuple(
            Graded(f"{question} {is_second:d}", question, "passed" if value == 1 else "failed", "")
            for question, (value,) in values[PASSED].items()
        )
        samples.append(Sample(f"run {is_second:d}", None, graded, values, {}, measured, {}))
    return samples[0], samples[1]


def _values(metric: Simulated, normal: np.ndarray, is_shifted: bool) -> list[float]:
    if metric.kind == "usage":
        factor = 1 + SHIFT if is_shifted else 1.0
        return list(metric.mean * factor * np.exp(0.5 * normal))
    kinds = {"binary": binary, "recall": recall, "rating": rating}
    return list(kinds[metric.kind](scipy.special.ndtr(normal), metric.mean - SHIFT * is_shifted))


def found(shifted: set[str], random: np.random.Generator) -> set[str]:
    """Return the metrics that a comparison shows to have changed; one that got better is marked."""
    changes = compare(*runs(shifted, random)).metrics
    return {
        change.metric if change.change is Change.WORSE else f"{change.metric}: {change.change}"
        for change in changes
        if change.change not in (Change.NONE, Change.TOO_LITTLE)
    }


def shares(repetitions: int, seed: int = 1) -> dict[str, float]:
    """Return for each defect in which share of the repetitions what is found is what it implies."""
    random = np.random.default_rng(seed)
    return {
        defect: sum(found(shifted, random) == shifted for _ in range(repetitions)) / repetitions
        for defect, shifted in DEFECTS.items()
    }


def main(repetitions: int) -> int:
    """Print the share of each defect; return the exit code."""
    of_defects = shares(repetitions)
    for defect, share in of_defects.items():
        print(f"{defect:20} {share:.3f}")
    return any(
        share < (LOWEST if PASSED in DEFECTS[name] else LOWEST_OF_TWO) for name, share in of_defects.items()
    )


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
