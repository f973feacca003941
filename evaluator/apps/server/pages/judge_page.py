"""The page of judges: how the verdicts of a metric agree with people's labels, and how people agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from spangrade.evaluator.apps.server.pages.charts import FEW, Chart, ChartValue, drawn, names_axis
from spangrade.evaluator.apps.server.pages.queries import rows_of
from spangrade.evaluator.metrics.external import LABEL
from spangrade.evaluator.reports.html.filters import Scope, given_scope
from spangrade.evaluator.results.origin import OriginFilter, origin_filter
from spangrade.evaluator.statistics.agreement.agreement import (
    MIN_LABELS,
    PASSED,
    Judged,
    Label,
    compared_verdicts,
    differing_verdicts,
    pairs_of_people,
)
from spangrade.evaluator.statistics.agreement.statistics import (
    AgreementRate,
    Confusion,
    Kappa,
    cohens_kappa,
    rate,
)
from spangrade.evaluator.statistics.agreement.stored import stored_labels
from spangrade.evaluator.statistics.comparison.sample import is_judged
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.store import Store

MAX_METRICS = 50
MAX_DISPUTES = 200

_Row = Mapping[str, Any]


class JudgeAgreement(NamedTuple):
    """How verdicts agree with people's on the sessions that have both; None without such sessions."""

    confusion: Confusion
    agreed: AgreementRate | None
    kappa: Kappa | None

    @property
    def is_enough(self) -> bool:
        """Whether there are as many labels as a report rests on."""
        return sum(self.confusion) >= MIN_LABELS


def judge_page(store: Store, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of `judge.html`: the metrics that people labelled, and more of the `metric` of a URL.

    Without one it is that with the most labels. The header's filters choose among the labelled sessions, of
    any origin unless one is given. Raises InputError if nobody labelled that metric.
    """
    scope = Scope(given_scope(texts), origin_filter(texts.get("origin") or OriginFilter.ANY))
    sessions = _labelled(store, scope) if scope.given else None
    known = rows_of(store, "judge_metrics", label=LABEL, passed=PASSED, sessions=sessions, limit=MAX_METRICS)
    names = [row["metric"] for row in known]
    metric = texts.get("metric", "").strip() or next(iter(names), "")
    if not metric:
        return {**scope.values(), "metric": "", "metrics": [], "least": MIN_LABELS}
    labels = stored_labels(store, metric)
    if not labels:
        raise InputError(f"metric: nobody labelled {metric[:80]!r}; expected one of {', '.join(names)}")
    rows = _verdicts(store, metric)
    if sessions is not None:
        chosen = frozenset(sessions)
        labels = [one for one in labels if one.session_id in chosen]
        rows = [row for row in rows if row["session_id"] in chosen]
    latest = [_judged(row) for row in rows if row["latest"]]
    differing = differing_verdicts(latest, labels)
    by_month = _by(rows, labels, lambda row: (f"{row['judged_at']:%Y-%m}",))
    return {
        **scope.values(),
        "kept": {"metric": metric},
        "metric": metric,
        "metrics": known,
        "least": MIN_LABELS,
        "agreement": _agreement(latest, labels),
        "labelled": len({one.session_id for one in labels}),
        "by_month": by_month,
        **_charts(by_month),
        "by_version": _by(
            rows,
            labels,
            lambda row: (row["judge"] if metric == PASSED or is_judged(metric) else "", row["version"]),
        ),
        "pairs": pairs_of_people(labels),
        "disputes": differing[:MAX_DISPUTES],
        "more_disputes": max(len(differing) - MAX_DISPUTES, 0),
        "rubric": "" if metric == PASSED else metric,
    }


def _charts(by_month: Sequence[tuple[tuple[str, ...], JudgeAgreement]]) -> dict[str, Any]:
    """Return the charts of agreement and kappa by month; none of one month."""
    months = [month for (month,), _ in by_month]
    if len(months) < 2:
        return {"drawn": None}
    axis = names_axis("month", months)
    agreed, kappa = (
        {
            month: ChartValue(one.estimate, sum(each.confusion), one.low, one.high)
            for (month,), each in by_month
            if (one := of(each)) is not None
        }
        for of in (attrgetter("agreed"), attrgetter("kappa"))
    )
    charts = (
        Chart("Agreement by month, with 95% intervals", "percent", {"": agreed}, 1),
        Chart("Kappa by month, with 95% intervals", "count", {"": kappa}, 1),
    )
    return {"few": FEW, "drawn": drawn(axis, charts)}


def _labelled(store: Store, scope: Scope) -> list[str]:
    """Return the labelled sessions of the header's filters."""
    chosen = scope.sessions()
    rows = store.query(
        "SELECT DISTINCT session_id FROM scores "  # noqa: S608 (the conditions are ours)
        f"SEMI JOIN (SELECT session_id FROM derived.sessions WHERE {chosen.condition}) USING (session_id) "
        "WHERE run_id IS NULL AND source = 'person' AND label IN ('pass', 'fail')",
        dict(chosen.parameters),
    )
    return [session_id for (session_id,) in rows]


def _verdicts(store: Store, metric: str) -> list[dict[str, Any]]:
    """Return the verdicts on labelled sessions, one of each judge and version."""
    if metric == PASSED:
        return rows_of(store, "judge_verdicts", metrics=[PASSED, LABEL])
    return rows_of(store, "judge_scores", metrics=[metric], metric=metric)


def _judged(row: _Row) -> Judged:
    return Judged(row["session_id"], row["passed"], row["value"], row["reason"])


def _agreement(judged: Sequence[Judged], labels: Sequence[Label]) -> JudgeAgreement:
    confusion = Confusion.of(compared_verdicts(judged, labels).values())
    return JudgeAgreement(confusion, rate(confusion.agreed, sum(confusion)), cohens_kappa(confusion))


def _by(
    rows: Sequence[_Row], labels: Sequence[Label], key: Callable[[_Row], tuple[str, ...]]
) -> list[tuple[tuple[str, ...], JudgeAgreement]]:
    """Return the agreement of the verdicts of each key, in its order; of several in one the last counts."""
    groups: dict[tuple[str, ...], dict[str, _Row]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: row["judged_at"]):
        groups[key(row)][row["session_id"]] = row
    found = [
        (name, _agreement([_judged(row) for row in group.values()], labels))
        for name, group in sorted(groups.items())
    ]
    return [(name, one) for name, one in found if one.agreed is not None]
