"""One side of a comparison: the verdicts and values of sessions, whichever run or file they are from."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.metrics import load_metrics
from spangrade.evaluator.statistics.agreement.statistics import Confusion
from spangrade.evaluator.statistics.comparison.graded import Graded

PASSED = "passed"  # the share of sessions that passed, as a metric


class Measured(NamedTuple):
    """The properties of a metric: its direction, its lowest and highest possible value, its versions.

    `thresholds` and `versions` have one entry for a run, and each distinct value for several runs.
    """

    higher_is_better: bool | None
    bounds: tuple[float, float]
    unit: str
    thresholds: tuple[float | None, ...] = (None,)
    versions: tuple[str | None, ...] = (None,)


class Replayed(NamedTuple):
    """A session whose user said the lines of another run, till the turn `parted_at`; None for all of them."""

    session_id: str
    question_id: str | None
    parted_at: int | None


@dataclass(frozen=True)
class Sample:
    """The graded sessions of a run, or those that meet a condition.

    `values` holds the values of each metric by question (by session without one), `unknown` how many of its
    outcomes have no value although it applies. `questions` maps the golden questions to what they expect, as
    canonical JSON, empty where that is not recorded; no session answers those that are `unanswered`. `judges`
    are those that were asked; `labelled` counts their verdicts on what people labelled, by metric. `run_id`
    is None for sessions of several runs; `ungraded` is how many sessions meet the condition and were never
    graded, `arrived_since` how many verdicts are older than their session. `replayed` are all sessions with
    simulated users if a line of any of them was replayed. `stored_as` is the id of the one run that it is,
    also where its files were read; `agents` are the agents that began its sessions, `rules` the versions of
    the rules that judged them, None where that is not recorded; `dataset` is that of a stored run.
    """

    label: str
    run_id: str | None
    graded: tuple[Graded, ...]
    values: Mapping[str, Mapping[str, tuple[float, ...]]]
    unknown: Mapping[str, Mapping[str, int]]
    metrics: Mapping[str, Measured]
    questions: Mapping[str, str]
    ungraded: int = 0
    arrived_since: int = 0
    unanswered: frozenset[str] = frozenset()
    judges: tuple[str, ...] = ()
    labelled: Mapping[str, Confusion] = field(default_factory=dict)
    replayed: tuple[Replayed, ...] = ()
    stored_as: str | None = None
    agents: frozenset[str] = frozenset()
    rules: frozenset[str | None] = frozenset()
    dataset: str = ""

    def by_key(self) -> dict[str, list[Graded]]:
        """Return the sessions by question, or by session without one."""
        found: dict[str, list[Graded]] = {}
        for session in self.graded:
            found.setdefault(session.key, []).append(session)
        return found

    def of_questions(self, ids: Collection[str]) -> Sample:
        """Return what is known of these questions alone."""
        return replace(
            self,
            graded=tuple(one for one in self.graded if one.question_id in ids),
            values={name: _only(by_key, ids) for name, by_key in self.values.items()},
            unknown={name: _only(by_key, ids) for name, by_key in self.unknown.items()},
            questions=_only(self.questions, ids),
            unanswered=self.unanswered & frozenset(ids),
            replayed=tuple(one for one in self.replayed if one.question_id in ids),
        )

    def of_sessions(self, ids: Collection[str]) -> Sample:
        """Return what is known of these sessions; a question of which they are a part has no values."""
        kept = tuple(one for one in self.graded if one.session_id in ids)
        left = {one.key for one in self.graded if one.session_id not in ids}
        whole = {one.key for one in kept} - left
        return replace(
            self,
            graded=kept,
            values={
                name: {**_only(by_key, whole), **(passed(kept) if name == PASSED else {})}
                for name, by_key in self.values.items()
            },
            unknown={name: _only(by_key, whole) for name, by_key in self.unknown.items()},
            questions=_only(self.questions, {one.key for one in kept}),
            unanswered=frozenset(),
            replayed=tuple(one for one in self.replayed if one.session_id in ids),
        )

    @cached_property
    def session_ids(self) -> frozenset[str]:
        """The ids of its sessions."""
        return frozenset(session.session_id for session in self.graded)

    @cached_property
    def keys_of_graded(self) -> frozenset[str]:
        """The questions that sessions answer, and the sessions without one."""
        return frozenset(session.key for session in self.graded)

    @cached_property
    def keys_by_kind(self) -> tuple[frozenset[str], frozenset[str]]:
        """The questions, answered or not, and the sessions without a question."""
        answered = frozenset(one.key for one in self.graded if one.question_id is not None)
        return answered | self.unanswered, self.keys_of_graded - answered


_Value = TypeVar("_Value")


def _only(by_key: Mapping[str, _Value], keys: Collection[str]) -> dict[str, _Value]:
    return {key: value for key, value in by_key.items() if key in keys}


def passed(graded: Iterable[Graded]) -> dict[str, tuple[float, ...]]:
    """Return which sessions passed (1) and failed (0), without those of another verdict."""
    values: dict[str, tuple[float, ...]] = {}
    for session in graded:
        if session.verdict in (Verdict.PASSED, Verdict.FAILED):
            key = session.key
            values[key] = (*values.get(key, ()), float(session.verdict == Verdict.PASSED))
    return values


def undecided(graded: Iterable[Graded], unanswered: Iterable[str]) -> dict[str, int]:
    """Return how many sessions of each question are inconclusive or broken; one if none answers it."""
    counts = dict.fromkeys(unanswered, 1)
    for session in graded:
        if session.verdict in (Verdict.INCONCLUSIVE, Verdict.BROKEN):
            counts[session.key] = counts.get(session.key, 0) + 1
    return counts


def is_judged(metric: str) -> bool:
    """Return whether a judge may have rated a metric; of a metric that is not installed, this is assumed."""
    name = metric.partition(":")[0]
    is_of_replies = name in ("final_response_match", "responses_match")
    return is_of_replies or name.endswith("@judge") or name not in load_metrics()


def measured(metric: str, *samples: Sample) -> Measured:
    """Return the properties of a metric that the samples record, else those of the installed metric.

    A metric that is neither recorded nor installed has no direction and no bounds.
    """
    for sample in samples:
        if metric in sample.metrics:
            return sample.metrics[metric]
    return installed(metric)


def installed(metric: str) -> Measured:
    """Return the properties of `passed` or of an installed metric; another has no direction and no bounds."""
    if metric == PASSED:
        return Measured(True, (0.0, 1.0), "share")
    found = load_metrics().get(metric.partition(":")[0])
    if found is None:
        return Measured(None, (-math.inf, math.inf), "number")
    return Measured(found.higher_is_better, found.bounds, found.unit)
