"""In which order people review sessions: those first from which a label teaches the most."""

from __future__ import annotations

from typing import NamedTuple

from spangrade.evaluator.grading.origin import OriginFilter, origin_filter
from spangrade.evaluator.metrics.stored_values import stored_thresholds
from spangrade.evaluator.results.views import with_views
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

NEAR = 0.1  # of the threshold


class ToReview(NamedTuple):
    """A session without a label, and why it is reviewed: `disagreement`, `near a threshold` or `random`."""

    session_id: str
    reason: str
    details: str = ""


class _Judged(NamedTuple):
    """A score with a threshold; `margin` is its distance from it, as a share of it; None if unknown."""

    metric: str
    value: float | None
    passed: bool
    margin: float | None


def review_order(
    store: Store,
    name: str,
    seed: int,
    *,
    by: str | None = None,
    at_random: bool = False,
    origin: str = OriginFilter.PRODUCTION,
) -> list[ToReview]:
    """Return the sessions without a label of a name, `by` a person or anybody, in the order of review.

    First come those of which one gate was met and another missed by their verdict, then
    those with a score within `NEAR` of its threshold, the nearest first, then the others, in an order that
    `seed` shuffles. With `at_random` that is the order of all. `origin` is one of `OriginFilter`.
    """
    chosen = {"name": name, "author": by, "origin": origin_filter(origin), "seed": str(seed)}
    judged = {} if at_random else _judged_scores(store)
    disagreeing: list[ToReview] = []
    near: list[tuple[float, ToReview]] = []
    others: list[ToReview] = []
    for (session_id,) in store.query(_sql("unlabelled"), chosen):
        scores = judged.get(session_id, ())
        if len({score.passed for score in scores}) > 1:
            disagreeing.append(ToReview(session_id, "disagreement", _details(scores)))
            continue
        margins = [(score.margin, score) for score in scores if score.margin is not None]
        nearest = min(margins, key=lambda one: one[0], default=None)
        if nearest is not None and nearest[0] <= NEAR:
            near.append((nearest[0], ToReview(session_id, "near a threshold", _details([nearest[1]]))))
        else:
            others.append(ToReview(session_id, "random"))
    near.sort(key=lambda one: one[0])
    return [*disagreeing, *(one for _, one in near), *others]


def _judged_scores(store: Store) -> dict[str, list[_Judged]]:
    judged: dict[str, list[_Judged]] = {}
    for session_id, metric, value, passed, thresholds in store.query(with_views(_sql("judged_scores"))):
        text = stored_thresholds(thresholds).get(metric, "")
        threshold = text.removeprefix(">=").removeprefix("<=").strip()
        margin = None
        if value is not None and threshold and float(threshold):
            margin = abs(value - float(threshold)) / abs(float(threshold))
        # A share that is met in full is as far from its threshold as it can be.
        if passed and value == 1 and text == ">= 1":
            margin = None
        judged.setdefault(session_id, []).append(_Judged(metric, value, passed, margin))
    return judged


def _details(scores: list[_Judged] | tuple[_Judged, ...]) -> str:
    return ", ".join(
        f"{score.metric} {'' if score.value is None else f'{score.value:.4g} '}"
        f"{'passed' if score.passed else 'failed'}"
        for score in scores
    )


def _sql(name: str) -> str:
    return statement(name, "spangrade.evaluator.review.scores")
