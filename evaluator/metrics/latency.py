"""The metric of time, reported for every session."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics.causes import Cause, turn_cause
from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score, limited, metric
from spangrade.evaluator.session import Session


def nearest_rank(ordered: Sequence[float], share: float) -> float | None:
    """Return the percentile of ascending values by nearest rank, the ⌈share × n⌉-th; None without values."""
    return ordered[max(ceil(share * len(ordered)), 1) - 1] if ordered else None


@metric(unit="seconds", higher_is_better=False, grows=True)
def latency_metrics(session: Session) -> Outcome:
    """The sum of the turns' seconds, without the user's thinking time.

    Inconclusive without turns, or if the duration of a turn is not recorded.

    Source: own definition; its percentiles are by nearest rank.
    """
    if not session.turns:
        return Inconclusive("no turn is recorded; record each user message with turn, or on a span")
    latency = session.latency
    turns = sorted(turn.latency_s for turn in session.turns if turn.latency_s is not None)
    if latency.total_s is None:
        untimed = ", ".join(str(turn.turn) for turn in session.turns if turn.latency_s is None)
        what = f"the duration of these turns is not recorded: {untimed}"
        return Inconclusive(f"{what}; spans that end with the turn record it", sum(turns))
    details = {
        "llm_s": latency.llm_s,
        "tool_s": latency.tool_s,
        "framework_s": latency.framework_s,
        "first_response_s": latency.first_response_s,
        "average_turn_s": sum(turns) / len(turns),
        "p50_turn_s": nearest_rank(turns, 0.5),
        "p95_turn_s": nearest_rank(turns, 0.95),
    }
    return Score(latency.total_s, None, f"{len(turns)} turns", (), details)


def _slowest(session: Session) -> tuple[Cause, ...]:
    """Return the slowest turn."""
    slowest = max(session.turns, key=lambda turn: turn.latency_s or 0.0)
    return (turn_cause(session, slowest.turn, f"turns[{slowest.turn}].latency_s"),)


@metric(needs="max_latency_s", threshold=1.0, unit="ratio", higher_is_better=False, grows=True)
def max_latency_s(session: Session, question: GoldenQuestion) -> Outcome:
    """The seconds of the turns as a ratio of `max_latency_s`: at most 1 is within the limit.

    Inconclusive as `latency_metrics` is, unless what is known exceeds the limit already.

    Source: own definition.
    """
    return limited(
        latency_metrics(session), question.reference("max_latency_s"), "s", lambda: _slowest(session)
    )


METRICS = (latency_metrics, max_latency_s)
