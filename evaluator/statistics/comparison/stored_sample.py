"""Samples from a database: the sessions of a run, or those that meet a condition with their latest grades."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from spangrade.evaluator.grading.run_list import BRANCH
from spangrade.evaluator.grading.selection import select_sessions
from spangrade.evaluator.grading.spec import Selection
from spangrade.evaluator.grading.stored_run import expectation
from spangrade.evaluator.metrics.stored_values import only_run, stored_question_json
from spangrade.evaluator.results.views import with_views
from spangrade.evaluator.statistics.agreement.stored import judged_as_people
from spangrade.evaluator.statistics.comparison.by_question import AtPlaces
from spangrade.evaluator.statistics.comparison.graded import graded_sessions, query_of
from spangrade.evaluator.statistics.comparison.sample import (
    PASSED,
    Measured,
    Replayed,
    Sample,
    is_judged,
    passed,
    undecided,
)
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.installation import is_installed
from spangrade.tracer.store import Store

# The name of a run has none of these, and no condition but a column's bare name does without all.
_OF_CONDITIONS = re.compile(r"[\s=<>()'\"\[\]]")


def is_condition(text: str) -> bool:
    """Return whether a text is a condition on sessions, not the name of a run."""
    return not text.startswith(BRANCH) and _OF_CONDITIONS.search(text) is not None


def sample_of_run(store: Store, run_id: str, expected: Expectations | None = None) -> Sample:
    """Return the sessions of a run; `expected` is that of the samples that it is compared with."""
    names = store.query("SELECT name FROM runs WHERE run_id = $run_id", {"run_id": run_id})
    (name,) = only_run(names, run_id)
    expected = Expectations() if expected is None else expected
    return _sample(store, name or run_id[:8], query_of("sessions_of_run"), {"run_id": run_id}, expected)


def sample_of_condition(store: Store, condition: str, expected: Expectations) -> Sample:
    """Return the sessions that meet a condition in SQL, each with the grade of its latest run.

    The store must be open with `confined`. Raises InputError for a condition that is not one expression or
    that DuckDB refuses, and if none of the sessions was graded.
    """
    selected = select_sessions(store, Selection(where=condition), label=f"compare {condition!r}")
    chosen = with_views(
        "SELECT * FROM {grades} SEMI JOIN (SELECT unnest($session_ids) AS session_id) USING (session_id) "
        "WHERE shown"
    )
    sample = _sample(store, condition, chosen, {"session_ids": sorted(selected)}, expected)
    if not sample.graded:
        kind = "graded session" if selected else "session"
        raise InputError(f"compare {condition!r}: no {kind} in {store.path} meets it")
    return replace(sample, ungraded=len(selected) - len(sample.session_ids))


class Expectations(dict[str | None, str]):
    """What golden questions expect, by their stored text: the samples of a comparison share most of them."""

    def __missing__(self, text: str | None) -> str:
        """Return what a question expects that was not asked for before."""
        found = self[text] = expectation(stored_question_json(text))
        return found


def _columns(store: Store, text: str, parameters: dict[str, Any]) -> Iterable[tuple[Any, ...]]:
    """Return the rows of a query, their lists as arrays where numpy is installed, as it is with scipy."""
    found = store.connection.execute(text, parameters)
    return found.fetchall() if not is_installed("numpy") else zip(*found.fetchnumpy().values(), strict=True)


def _sample(
    store: Store, label: str, chosen: str, parameters: dict[str, Any], expected: Expectations
) -> Sample:
    """Return the sessions that a query chooses with their grades."""

    def rows(name: str) -> Sequence[tuple[Any, ...]]:
        return store.query(query_of(name).format(chosen=chosen), parameters)

    graded = graded_sessions(store, chosen, parameters)
    keys = [one.key for one in graded]
    values = {
        metric: AtPlaces(keys, places, found)
        for metric, places, found in _columns(store, query_of("values").format(chosen=chosen), parameters)
    }
    metrics: dict[str, Measured] = {}
    for metric, better, low, high, unit, threshold, version in rows("measured"):
        before = metrics.get(metric, Measured(better, (low, high), unit, (), ()))
        thresholds = (*(one for one in before.thresholds if one != threshold), threshold)
        versions = (*(one for one in before.versions if one != version), version)
        metrics[metric] = Measured(better, (low, high), unit, thresholds, versions)
    unknown = {
        metric: Counter(map(keys.__getitem__, places)) for metric, places in rows("outcomes_without_value")
    }
    judges = tuple(judge for (judge,) in rows("judges"))
    rated = {metric: one.versions for metric, one in metrics.items() if is_judged(metric)}
    is_run = "run_id" in parameters  # of sessions that are selected, what else there could be is not known
    unanswered = frozenset(key for (key,) in rows("unanswered_questions")) if is_run else frozenset()
    judged_by = rows("rules")
    return Sample(
        label,
        parameters.get("run_id"),
        graded,
        {PASSED: passed(graded), **values},
        {PASSED: undecided(graded, unanswered), **unknown},
        metrics,
        {question_id: expected[text] for question_id, text in rows("questions")},
        unanswered=unanswered,
        judges=judges,
        labelled=judged_as_people(store, judges, rated, PASSED) if judges and rated else {},
        replayed=_replayed(rows("replayed")),
        arrived_since=rows("arrived_since")[0][0],
        stored_as=parameters.get("run_id"),
        agents=frozenset(agent for (agent,) in rows("first_agents")),
        rules=frozenset(rules for rules, _ in judged_by),
        dataset=judged_by[0][1] if is_run and judged_by else "",
    )


def _replayed(simulated: Sequence[tuple[Any, ...]]) -> tuple[Replayed, ...]:
    """Return the sessions with simulated users, () if none of their lines was replayed."""
    is_replay = any(replayed for *_, replayed in simulated)
    return tuple(Replayed(*values) for *values, _ in simulated) if is_replay else ()
