"""The verdicts of a metric and the labels of people, as a database has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from spangrade.evaluator.metrics.external import LABEL
from spangrade.evaluator.results.views import with_views
from spangrade.evaluator.statistics.agreement.agreement import PASSED, Judged, Label, majorities
from spangrade.evaluator.statistics.agreement.statistics import Confusion
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement


def stored_labels(store: Store, metric: str) -> list[Label]:
    """Return the labels for a metric, one per session and person; for `passed`, those of whole sessions."""
    names = [metric, LABEL] if metric == PASSED else [metric]
    return [Label._make(row) for row in store.query(_sql("labels"), {"metrics": names})]


def stored_verdicts(store: Store, metric: str, threshold: float | None) -> list[Judged]:
    """Return the verdict on each session of the latest run that measured a metric.

    A score has the verdict of its run or, with a `threshold`, passes if it meets this. An outcome that is not
    a score is not a verdict. `passed` is the latest verdict on the session as a whole; one that is neither
    passed nor failed is not a verdict of it. Raises InputError if no run measured the metric, or if no score
    has a verdict.
    """
    if metric == PASSED:
        return _verdicts_of_sessions(store, threshold)
    rows = store.query(_sql("judged_sessions"), {"metric": metric})
    if not rows:
        raise InputError(f"no run measured {metric}: spangrade grade --metric '{metric}>=THRESHOLD' does")
    judged = []
    for session_id, outcome, value, passed, reason, higher_is_better in rows:
        verdict = passed if outcome == "score" else None
        if threshold is not None and outcome == "score" and value is not None:
            verdict = value <= threshold if higher_is_better is False else value >= threshold
        judged.append(Judged(session_id, verdict, value, reason or ""))
    if threshold is None and all(one.passed is None for one in judged):
        raise InputError(
            f"no score of {metric} has a verdict: grade by {metric}>=THRESHOLD, or give a threshold"
        )
    return judged


def _verdicts_of_sessions(store: Store, threshold: float | None) -> list[Judged]:
    if threshold is not None:
        raise FieldError("threshold", f"{PASSED} is a verdict: expected no threshold")
    rows = store.query(_sql("verdicts"))
    if not rows:
        raise InputError("no run graded a session: spangrade grade does")
    known = {"passed": True, "failed": False}
    return [
        Judged(session_id, known.get(verdict), None, reason or "") for session_id, verdict, reason in rows
    ]


def latest_run_of(store: Store, metric: str) -> tuple[str, dict[str, tuple[float, bool]]]:
    """Return the latest run with verdicts of a metric, and its value and verdict of each session.

    Raises InputError if there is none.
    """
    rows = store.query(_sql("latest_run_of"), {"metric": metric})
    if not rows:
        raise InputError(
            f"no run has verdicts of {metric}: spangrade grade --metric '{metric}>=THRESHOLD' does"
        )
    return rows[0][0], {session_id: (value, passed) for _, session_id, value, passed in rows}


def judged_as_people(
    store: Store, judges: Sequence[str], versions: Mapping[str, Iterable[str | None]], of_verdict: str
) -> dict[str, Confusion]:
    """Return how the verdicts of metrics that these judges rated agree with the labels of people.

    `versions` has the metrics, each with those of its versions that count. Under `of_verdict` is how the
    verdicts of whole sessions agree: people pass a session if it passes each gate with a label by the label,
    and each other gate by its score.
    """
    labels = {metric: majorities(stored_labels(store, metric)) for metric in versions}
    pairs: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    rows = store.query(_sql("labelled_gates"), {"judges": list(judges)})
    for session_id, gates in groupby(rows, key=lambda row: row[0]):
        by_judge, by_people, has_label = True, True, False
        for _, metric, version, passed in gates:
            people = labels.get(metric, {}).get(session_id)
            if people is not None and version in versions[metric]:
                pairs[metric].append((passed, people))
                has_label = True
            else:
                people = passed
            by_judge, by_people = by_judge and passed, by_people and people
        if has_label:
            pairs[of_verdict].append((by_judge, by_people))
    return {metric: Confusion.of(found) for metric, found in pairs.items()}


def _sql(name: str) -> str:
    return with_views(statement(name, "spangrade.evaluator.statistics.agreement"))
