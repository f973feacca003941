"""The metric of scores that the traces of a session record: feedback of users, other evaluators."""

from __future__ import annotations

import math
from statistics import fmean

from spangrade.evaluator.metrics.metric import NotApplicable, Outcome, Score, metric
from spangrade.evaluator.session import RecordedScore, Session


@metric(higher_is_better=None, unit="number", scale=(-math.inf, math.inf), parameters={"name": ()})
def trace_score(session: Session, name: str) -> Outcome:
    """The mean of the scores of a name in the session's traces, the newest of each author and span.

    Never inconclusive: not applicable to a session without such a score.

    Source: the evaluation events of the OpenTelemetry GenAI conventions.
    """
    newest: dict[tuple[object, ...], RecordedScore] = {}
    for score in session.recorded_scores:
        if score.name == name and score.value is not None:
            newest[score.author, score.turn, score.trace_id, score.span_id] = score
    if not newest:
        return NotApplicable(f'its traces record no score "{name}"')
    values = [score.value for score in newest.values() if score.value is not None]
    reasons = dict.fromkeys(score.explanation for score in newest.values() if score.explanation)
    evidence = dict.fromkeys(score.span_id for score in newest.values() if score.span_id)
    return Score(fmean(values), None, "; ".join(reasons), tuple(evidence))


METRICS = (trace_score,)
