"""The policy of grading: which metrics gate a session, what its verdict is, and the exit code of a run.

A gate is a metric with a threshold. Nothing else in grading decides about verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics import Failure, Metric, Outcome, Score
from spangrade.evaluator.session import Session
from spangrade.tracer.errors import ExitCode
from spangrade.tracer.semconv import QUESTION_ID

CONVERSATION = "conversation"  # gates every session with a golden question

# These gate if no gate is requested, each one if the question has its reference. Their thresholds are 1: a
# reference lists what must happen.
DEFAULT_GATES = ("trajectory_accuracy", "tool_usage_accuracy", "state_management_fidelity", "agent_routing")

# Measured for every session.
REPORTED = (
    "token_usage",
    "latency_metrics",
    "cache_efficiency",
    "thinking_metrics",
    "tool_utilization",
    "tool_success_rate",
    "grounding_utilization",
    "context_saturation",
    "agent_handoffs",
    "output_density",
    "sandbox_usage",
    "cost",
)


class Verdict(StrEnum):
    """The verdict on one session. An `UNMATCHED` session answers no golden question and is not judged."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    BROKEN = "broken"
    UNMATCHED = "unmatched"


class Decision(NamedTuple):
    """A verdict and the reason for it, empty if the session passed."""

    verdict: Verdict
    reason: str


# The verdict of many results is the first of these that any of them has, and so is the verdict of a run.
PRECEDENCE = (Verdict.BROKEN, Verdict.FAILED, Verdict.INCONCLUSIVE)

EXIT_CODES = {
    Verdict.BROKEN: ExitCode.BROKEN,
    Verdict.FAILED: ExitCode.FAILED,
    Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
}


@dataclass(frozen=True, slots=True)
class MetricPlan:
    """The metrics of a run: `gates` (each where the question has its reference), `requested`, `reported`."""

    gates: tuple[Metric, ...]
    requested: tuple[Metric, ...]
    reported: tuple[Metric, ...]

    @classmethod
    def of(cls, requested: Iterable[Metric], installed: Mapping[str, Metric]) -> Self:
        """Return the plan of a run: one requested gate, a metric with a threshold, drops `DEFAULT_GATES`."""
        by_name = {metric.name: metric for metric in requested}
        any_gate = any(metric.threshold is not None for metric in by_name.values())
        gates = (CONVERSATION,) if any_gate else (CONVERSATION, *DEFAULT_GATES)
        return cls(
            tuple(installed[name] for name in gates if name not in by_name),
            tuple(by_name.values()),
            tuple(installed[name] for name in REPORTED if name not in by_name),
        )

    def metrics_for(self, session: Session, question: GoldenQuestion | None) -> Sequence[Metric]:
        """Return the metrics to run on a session; without a question it is only reported on."""
        if question is None:
            return self.reported
        gates = [gate for gate in self.gates if question.reference(gate.needs or "") is not None]
        requested = [metric for metric in self.requested if _is_for(metric, session, question)]
        return (*gates, *requested, *self.reported)


def decide(
    session: Session, candidates: Sequence[GoldenQuestion], results: Sequence[tuple[Metric, Outcome]]
) -> Decision:
    """Return the verdict on a session: `candidates` are the golden questions that it may answer."""
    reasons: dict[Verdict, list[str]] = {}
    for metric, outcome in results:
        verdict = _verdict_of(metric, outcome)
        if verdict is not Verdict.PASSED:
            why = outcome.error if isinstance(outcome, Failure) else outcome.reason
            reasons.setdefault(verdict, []).append(f"{metric.name}: {why}")
    if len(candidates) != 1 and Verdict.BROKEN not in reasons:
        return ambiguous(candidates) if candidates else _unmatched(session)
    for verdict in PRECEDENCE:
        if verdict in reasons:
            return Decision(verdict, "; ".join(reasons[verdict]))
    return Decision(Verdict.PASSED, "")


def ambiguous(candidates: Iterable[GoldenQuestion]) -> Decision:
    """Return the decision on a session that may answer any of several golden questions."""
    names = ", ".join(question.id for question in candidates)
    reason = f"it may answer any of the golden questions {names}; {QUESTION_ID} on its spans would tell"
    return Decision(Verdict.INCONCLUSIVE, reason)


def unanswered(*, doubtful: bool) -> Decision:
    """Return the decision on a golden question without a session; `doubtful` if some might answer it."""
    reason = "no session answers it" + (" for certain: others begin alike" if doubtful else "")
    return Decision(Verdict.INCONCLUSIVE, reason)


def exit_code(verdicts: Iterable[Verdict]) -> ExitCode:
    """Return the exit code of a run with these verdicts: broken, then failed, then inconclusive."""
    present = set(verdicts)
    return next((EXIT_CODES[verdict] for verdict in PRECEDENCE if verdict in present), ExitCode.PASSED)


def _is_for(metric: Metric, session: Session, question: GoldenQuestion) -> bool:
    """Return whether an agent that the metric is for took part, or should have."""
    return not metric.agents or not set(metric.agents).isdisjoint(
        (*question.agents_evaluated, *(session.agents or ()))
    )


def _verdict_of(metric: Metric, outcome: Outcome) -> Verdict:
    """Return what one outcome means for its session. A metric that broke counts even if only reported."""
    if isinstance(outcome, Failure):
        return Verdict.BROKEN
    if isinstance(outcome, Score):
        return Verdict.FAILED if outcome.passed is False else Verdict.PASSED
    return Verdict.PASSED if metric.threshold is None else Verdict.INCONCLUSIVE


def _unmatched(session: Session) -> Decision:
    if session.assembly_error:
        return Decision(Verdict.INCONCLUSIVE, f"it could not be assembled: {session.assembly_error}")
    if session.question_id is not None:
        reason = f'no golden question has its question id "{session.question_id}"'
    elif any(turn.user_input is None for turn in session.turns):
        reason = "it has no question id, and its user inputs are not recorded"
    else:
        reason = "no golden question has its user inputs"
    return Decision(Verdict.UNMATCHED, reason)
