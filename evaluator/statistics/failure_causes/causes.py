"""What failed in sessions, as a set that neither order, repetition nor values change: their cause.

Of a gate whose evidence is a failed call it is the tool with the type of its error, else the gate with the
place that differs: `issue_refund(amount)`, `turns[3]`. Of a verdict without such a gate it is its reason
without values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from spangrade.evaluator.metrics.causes import path_of
from spangrade.evaluator.metrics.stored_values import stored_evidence
from spangrade.evaluator.results.views import with_views
from spangrade.evaluator.session import error_type
from spangrade.evaluator.statistics.clusters import CauseKey, Cluster
from spangrade.evaluator.statistics.comparison.graded import Graded
from spangrade.evaluator.statistics.failure_causes.facts import fact_of, find_facts
from spangrade.evaluator.statistics.reasons import what_went_wrong
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

_PACKAGE = "spangrade.evaluator.statistics.failure_causes"
_HAPPENED = ("error", "argument", "step", "tool")  # facts of what happened in a session
_UNTYPED = "failed"  # a call whose error has no type
LEAST_OF_NEW = 3  # sessions of a cause that is said to be new


def cause_keys(store: Store, failures: Sequence[Graded], run_id: str | None = None) -> dict[str, CauseKey]:
    """Return the causes of failed sessions by their ids, by the verdicts of a run or those that they show."""
    ids = [one.session_id for one in failures]
    if not ids:
        return {}
    calls: dict[tuple[str, str | None], tuple[str, str]] = {}
    query = statement("failed_calls", _PACKAGE)
    for session_id, span, tool, error in store.query(query, {"session_ids": ids}):
        calls[session_id, span] = (tool, error_type(error) or _UNTYPED)
    found: dict[str, set[tuple[str, str]]] = {}
    query = with_views(statement("failed_gates", _PACKAGE))
    for session_id, metric, reason, evidence in store.query(query, {"session_ids": ids, "run_id": run_id}):
        parts = set()
        for one in stored_evidence(evidence):
            span = one if isinstance(one, str) else one.span
            if (session_id, span) in calls:
                parts.add(calls[session_id, span])
            elif path := path_of(one):
                parts.add((metric, path))
        found.setdefault(session_id, set()).update(parts or {("", what_went_wrong(f"{metric}: {reason}"))})
    return {
        one.session_id: frozenset(found.get(one.session_id) or {("", what_went_wrong(one.reason))})
        for one in failures
    }


def part_text(part: tuple[str, str]) -> str:
    """Return a part of a cause in words: `TimeoutError of look_up`, `failing look_up`, or a reason."""
    name, what = part
    if what == _UNTYPED:
        return f"failing {name}"
    return f"{what} of {name}" if name else what


class Ranked(NamedTuple):
    """A cluster, how many sessions of it the period before leads to expect, and whether it is new.

    It is new if no session failed so before, and at least `LEAST_OF_NEW` do now.
    """

    cluster: Cluster
    expected: float
    is_new: bool


def ranked(
    store: Store,
    clusters: Sequence[Cluster],
    sessions: int,
    before: Sequence[Graded],
    sessions_before: int,
    run_id: str | None = None,
) -> list[Ranked]:
    """Return clusters with most sessions beyond what the period before leads to expect first.

    That is as many as failed so among the failures `before`, those of the run `run_id` if there is one, by
    the number of `sessions` now and before.
    """
    keys = cause_keys(store, before, run_id)
    alike = Counter(keys.values())
    leads = {}
    for place, one in enumerate(clusters):
        if one.facts and one.facts[0].kind in _HAPPENED:
            leads[place] = fact_of(one.facts[0].kind, one.facts[0].text)
    questions = {one.session_id: one.question_id for one in before}
    had = find_facts(store, list(leads.values()), list(questions), questions) if before and leads else {}
    growth = sessions / sessions_before if sessions_before else 0
    made = []
    for place, one in enumerate(clusters):
        number = sum(alike[key] for key in one.keys)
        if place in leads:
            number = min(number, len(had.get(leads[place], ())))
        made.append(Ranked(one, number * growth, not number and len(one.sessions) >= LEAST_OF_NEW))
    return sorted(made, key=lambda one: one.expected - len(one.cluster.sessions))
