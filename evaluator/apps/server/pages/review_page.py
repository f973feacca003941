"""The queue of a reviewer: which sessions to label next, and how many are done."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from spangrade.evaluator.apps.server.pages.queries import rows_of
from spangrade.evaluator.metrics.external import COMMENT, LABEL
from spangrade.evaluator.results.origin import OriginFilter, counts_by_origin, origin_filter
from spangrade.evaluator.review.scores.queue import Queued, queued
from spangrade.evaluator.review.scores.queues import ABOUT, USUAL
from spangrade.evaluator.statistics.comparison.sample import is_judged
from spangrade.tracer.store import Store

SHOWN = 100


def review_page(
    store: Store, reviewer: str, texts: Mapping[str, str], only: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the values of `review.html`: the queue that a URL asks for.

    Its parameters are `queue`, `seed`, `origin`, which is production unless it is given, and `among`, the
    names of those who share it. With `only` the sessions are among those of these ids. Raises InputError for
    a queue or an origin that there is not, and if the reviewer is not among those.
    """
    found = _queued(store, reviewer, texts, SHOWN, only=only)
    origin = origin_filter(texts.get("origin") or OriginFilter.PRODUCTION)
    left_out = {} if origin is OriginFilter.ANY else counts_by_origin(store)
    asked = {"queue": _kind(texts), **{name: texts.get(name, "") for name in ("seed", "origin")}}
    asked["among"] = ",".join(_among(texts))
    return {
        **found._asdict(),
        "left_out_origins": {one: number for one, number in left_out.items() if one != origin},
        "queue": _kind(texts),
        "queues": ABOUT,
        "among": _among(texts),
        "address": {name: value for name, value in asked.items() if value},
    }


def next_to_review(
    store: Store, reviewer: str, texts: Mapping[str, str], only: Collection[str] | None = None
) -> str | None:
    """Return the session after `after` in a queue, of those in `only`, that is not done; None at its end."""
    waiting = _queued(store, reviewer, texts, 1, texts.get("after") or None, only=only).waiting
    return waiting[0].review.session_id if waiting else None


def names_of_scores(store: Store) -> list[str]:
    """Return what a label may be about: metrics that were measured, judged ones first, and scores' names."""
    names = [row["metric"] for row in rows_of(store, "rubrics", limit=SHOWN)]
    chosen = (name for name in names if name not in (LABEL, COMMENT))
    return sorted(chosen, key=lambda name: not is_judged(name))


def _queued(
    store: Store,
    reviewer: str,
    texts: Mapping[str, str],
    limit: int,
    after: str | None = None,
    only: Collection[str] | None = None,
) -> Queued:
    return queued(
        store,
        _kind(texts),
        reviewer,
        seed=texts.get("seed") or "0",
        origin=texts.get("origin") or OriginFilter.PRODUCTION,
        among=_among(texts),
        after=after,
        limit=limit,
        only=only,
    )


def _kind(texts: Mapping[str, str]) -> str:
    return texts.get("queue") or USUAL


def _among(texts: Mapping[str, str]) -> list[str]:
    return [name for one in texts.get("among", "").split(",") if (name := one.strip())]
