"""Failed sessions in groups, by the facts that distinguish them from sessions that pass.

Sessions are first grouped by their causes (`causes.py`). A fact that many sessions of a group and few
passing ones have distinguishes them (`separated`). If nearly all sessions of a group have it, it describes
the group; if some have it, it splits the group. Groups that the same fact describes are merged.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from spangrade.evaluator.grading.stored_sessions import grades_of
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.metrics.causes import WhatRan, cause_text
from spangrade.evaluator.statistics.clusters import (
    FAILING,
    CauseKey,
    Cluster,
    Paths,
    Separated,
    cluster,
    passing_paths,
)
from spangrade.evaluator.statistics.comparison.graded import Graded
from spangrade.evaluator.statistics.failure_causes.causes import cause_keys
from spangrade.evaluator.statistics.failure_causes.facts import KINDS, PASSING, Fact, count_facts, find_facts
from spangrade.evaluator.statistics.reasons import what_went_wrong
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

_PACKAGE = "spangrade.evaluator.statistics.failure_causes"
_LEAST = 3  # sessions with a fact that may part them from others
_NEARLY_ALL = 0.9  # of a group: what this share has is said of all
_WORTH_IT = 0.2  # of a group: what this share has beyond chance parts it
_TIMES = 2  # as often as in sessions that pass
_STILL = 0.01  # the largest p-value of a fact in a part of the group in which it is separated
_MOST_FACTS = 3  # of a group
_MOST_TRIED = 200  # facts of a group, those that most have beyond chance
_LONGEST = 300  # characters of a line
_FALSE_DISCOVERIES = 0.05  # the share of what is chosen that may be chance
_TESTABLE = 0.01  # the p-value that the test of a fact must be able to reach
_NEGLIGIBLE = 1e-12  # of a sum


class _Group(NamedTuple):
    """Sessions that failed alike, the fact that describes them, and those that may say more of them."""

    sessions: tuple[Graded, ...]
    lead: Fact | None
    facts: tuple[Fact, ...]


def explain(
    store: Store, sessions: Sequence[Graded], others: Sequence[Graded] = (), run_id: str | None = None
) -> list[Cluster]:
    """Return the failed and broken sessions in groups by their causes, the largest first.

    They are compared with the passing sessions among `sessions` and `others`. `run_id` is the run that gave
    the verdicts; None stands for the verdicts that the sessions show.
    """
    failures = [one for one in sessions if one.verdict in FAILING]
    keys = cause_keys(store, failures, run_id)
    by_cause: dict[CauseKey, list[Graded]] = {}
    for one in failures:
        by_cause.setdefault(keys[one.session_id], []).append(one)
    passing = {one.session_id: one for one in (*sessions, *others) if one.verdict == Verdict.PASSED}
    contrast = _contrast(store, list(by_cause.values()), list(passing.values()))
    parts: dict[object, _Group] = {}
    for (cause, each), facts in zip(by_cause.items(), contrast.facts, strict=True):
        for group in _parted(each, facts, contrast):
            key = group.lead or cause
            before = parts.get(key, _Group((), group.lead, ()))
            merged = tuple(dict.fromkeys((*before.facts, *group.facts)))
            parts[key] = _Group((*before.sessions, *group.sessions), group.lead, merged)
    paths = passing_paths((*sessions, *others))
    made = [_cluster(group, by_cause, keys, contrast, paths) for group in parts.values()]
    made.sort(key=lambda one: (-len(one.sessions), one.what))
    return _with_lines(store, made, contrast, run_id)


class _Contrast(NamedTuple):
    """The facts that distinguish failures from passing sessions.

    `facts` has the facts of each group, the largest excess over chance first; `having` the failures that have
    a fact, each with its span; `passed` the number of the `passing` sessions that have it.
    """

    facts: Sequence[Sequence[Fact]]
    having: Mapping[Fact, Mapping[str, str | None]]
    passed: Mapping[Fact, int]
    passing: int

    def count_of(self, fact: Fact, sessions: Collection[Graded]) -> Count:
        """Return how many of some failures have a fact, beside those that pass."""
        here = sum(one.session_id in self.having[fact] for one in sessions)
        return Count(here, len(sessions), self.passed[fact], self.passing)

    def ranked(self, facts: Iterable[Fact], sessions: Collection[Graded]) -> list[tuple[Fact, Count]]:
        """Return the facts that distinguish some failures from passing sessions, the most telling first."""
        counted = [(fact, self.count_of(fact, sessions)) for fact in facts]
        return sorted(
            ((fact, one) for fact, one in counted if _tells(one) and one.p <= _STILL),
            key=lambda pair: (-pair[1].excess, KINDS.index(pair[0].kind), pair[0].text),
        )


def _tells(one: Count) -> bool:
    return one.here >= _LEAST and one.here * one.of_passing >= _TIMES * one.passing * one.of


def _contrast(store: Store, groups: Sequence[Sequence[Graded]], passing: Sequence[Graded]) -> _Contrast:
    """Return the facts that distinguish groups of failures from passing sessions, beyond chance."""
    large = {place: each for place, each in enumerate(groups) if len(each) >= _LEAST}
    if not passing or not large:
        return _Contrast([()] * len(groups), {}, {}, len(passing))
    parts = {**large, PASSING: passing}
    sessions = [(one.session_id, part, one.question_id) for part, each in parts.items() for one in each]
    found = count_facts(store, sessions, _LEAST)
    tested = [
        (place, fact, Count(by_part.get(place, 0), len(each), by_part.get(PASSING, 0), len(passing)))
        for fact, by_part in found.items()
        for place, each in large.items()
    ]
    ranked: list[list[tuple[float, int, str, Fact]]] = [[] for _ in groups]
    for index in separated([one for _, _, one in tested]):
        place, fact, one = tested[index]
        if _tells(one):
            ranked[place].append((-one.excess, KINDS.index(fact.kind), fact.text, fact))
    facts = [[fact for *_, fact in sorted(each)[:_MOST_TRIED]] for each in ranked]
    every = dict.fromkeys(fact for each in facts for fact in each)
    questions = {one.session_id: one.question_id for each in large.values() for one in each}
    passed = {fact: found[fact].get(PASSING, 0) for fact in every}
    return _Contrast(facts, find_facts(store, every, list(questions), questions), passed, len(passing))


def _parted(sessions: Sequence[Graded], facts: Sequence[Fact], contrast: _Contrast) -> Iterator[_Group]:
    """Yield the parts of a group that facts describe, the largest first, and the rest."""
    rest = list(sessions)
    while rest and (ranked := contrast.ranked(facts, rest)):
        lead, count = ranked[0]
        if count.here >= _NEARLY_ALL * len(rest):
            yield _Group(tuple(rest), lead, tuple(facts))
            return
        if count.excess < _WORTH_IT * len(rest):
            break
        having = contrast.having[lead]
        yield _Group(tuple(one for one in rest if one.session_id in having), lead, tuple(facts))
        rest = [one for one in rest if one.session_id not in having]
    if rest:
        yield _Group(tuple(rest), None, ())


def _cluster(
    group: _Group,
    by_cause: Mapping[CauseKey, Sequence[Graded]],
    keys: Mapping[str, CauseKey],
    contrast: _Contrast,
    paths: Paths,
) -> Cluster:
    """Return a group as a cluster: its examples are of those that have its first fact."""
    having = {} if group.lead is None else contrast.having[group.lead]
    sessions = sorted(group.sessions, key=lambda one: one.session_id not in having)
    reasons = Counter(what_went_wrong(one.reason) for one in sessions).most_common()
    causes = frozenset(keys[one.session_id] for one in sessions)
    is_whole = len(causes) == 1 and len(sessions) == len(by_cause[next(iter(causes))])
    what = reasons[0][0] if group.lead is None or is_whole else group.lead.text
    return cluster(what, sessions, paths)._replace(
        reasons=tuple(reasons), facts=tuple(_shown(group, sessions, contrast)), keys=causes
    )


def _shown(group: _Group, sessions: Sequence[Graded], contrast: _Contrast) -> Iterator[Separated]:
    """Yield the most telling facts of a group; of facts that the same sessions have, the first."""
    seen: set[tuple[frozenset[str], int]] = set()
    ranked = contrast.ranked(group.facts, sessions)
    for fact, one in sorted(ranked, key=lambda pair: pair[0] != group.lead):
        having = frozenset(each.session_id for each in sessions if each.session_id in contrast.having[fact])
        if (having, one.passing) not in seen:
            seen.add((having, one.passing))
            yield Separated(fact.kind, fact.text, *one)
        if len(seen) == _MOST_FACTS:
            return


def _with_lines(
    store: Store, clusters: Sequence[Cluster], contrast: _Contrast, run_id: str | None
) -> list[Cluster]:
    """Return clusters with the line of their first example to look at.

    It is the call that shows their first fact, else the first cause of the failed gates with the reason.
    """
    spans: list[tuple[str, str | None]] = []
    leads = {fact.text: found for fact, found in contrast.having.items()}
    for one in clusters:
        having = leads.get(one.facts[0].text, {}) if one.facts else {}
        spans.append((one.examples[0], having.get(one.examples[0])))
    known = [pair for pair in spans if pair[1] is not None]
    parameters = {"session_ids": [one for one, _ in known], "span_ids": [span for _, span in known]}
    query = statement("call_lines", _PACKAGE)
    lines = {(one, span): line for one, span, line in (store.query(query, parameters) if known else ())}
    others = [one for one, span in spans if (one, span) not in lines]
    grades = grades_of(store, others, run_id) if others else {}
    rows = store.query(statement("span_places", _PACKAGE), {"session_ids": list(grades)}) if grades else ()
    places: dict[str, dict[str, WhatRan]] = {}
    for one, span, name, turn in rows:
        places.setdefault(one, {})[span] = WhatRan(name, turn)
    made = []
    for each, (session_id, span) in zip(clusters, spans, strict=True):
        causes = grades[session_id].causes if session_id in grades else ()
        reason = each.sessions[0].reason
        line = lines.get((session_id, span)) or "; ".join(
            filter(None, (*(cause_text(one, places.get(session_id, {})) for one in causes[:1]), reason))
        )
        made.append(each._replace(look_at=line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"))
    return made


class Count(NamedTuple):
    """How many sessions of a group have a fact, and how many of those that pass."""

    here: int
    of: int
    passing: int
    of_passing: int

    @property
    def expected(self) -> float:
        """How many of the group would have it if they were like those that pass."""
        return self.of * self.passing / self.of_passing if self.of_passing else 0.0

    @property
    def excess(self) -> float:
        """How many more of the group have it than `expected`."""
        return self.here - self.expected

    @property
    def p(self) -> float:
        """The chance of at least this number in the group if chance alone decides, by Fisher's test."""
        return at_least(self.here, self.of, self.here + self.passing, self.of + self.of_passing)

    @property
    def is_testable(self) -> bool:
        """Whether the test could reach a small p-value, whoever of all sessions has the fact."""
        having, every = self.here + self.passing, self.of + self.of_passing
        return at_least(min(having, self.of), self.of, having, every) <= _TESTABLE


@lru_cache(maxsize=100_000)
def at_least(here: int, of: int, having: int, every: int) -> float:
    """Return the chance that of `having` among `every` sessions at least `here` are in a group of `of`."""
    if here <= of * having / every:
        return 1.0  # not more than expected: no smaller chance is of use
    term = total = math.exp(
        _log_ways(of, here) + _log_ways(every - of, having - here) - _log_ways(every, having)
    )
    for number in range(here, min(of, having)):
        term *= (of - number) * (having - number) / ((number + 1) * (every - of - having + number + 1))
        total += term
        if term < total * _NEGLIGIBLE:
            break
    return min(total, 1.0)


def separated(counts: Sequence[Count]) -> list[int]:
    """Return the places of the counts that are more than chance, the smallest p-value first.

    Each fact is tested by Fisher's exact test, one-sided. The procedure of Benjamini and Hochberg chooses
    some of the tested facts, of which at most 5% are expected to be chance. A fact that so few sessions have
    that its p-value cannot be small is not tested (Tarone 1990): how many have it says nothing about who has
    it.

    Sources: R. A. Fisher, "Statistical Methods for Research Workers" (1934). Y. Benjamini, Y. Hochberg,
    "Controlling the false discovery rate", Journal of the Royal Statistical Society B 57 (1995). R. E.
    Tarone, "A modified Bonferroni method for discrete data", Biometrics 46 (1990).
    """
    tested = sorted((one.p, place) for place, one in enumerate(counts) if one.is_testable)
    most = 0
    for rank, (p, _) in enumerate(tested, 1):
        if p <= _FALSE_DISCOVERIES * rank / len(tested):
            most = rank
    return [place for _, place in tested[:most]]


def _log_ways(of: int, chosen: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(chosen + 1) - math.lgamma(of - chosen + 1)
