"""Failures in clusters: sessions whose reasons are the same apart from arguments and values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.statistics.comparison.graded import Graded, where_paths_differ

FAILING = (Verdict.FAILED, Verdict.BROKEN)
_EXAMPLES = 2
_PATHS = 50  # of passing sessions without a question, that one is held against


CauseKey = frozenset[tuple[str, str]]  # of (tool, type of its error) and (gate, place)


class Separated(NamedTuple):
    """A fact that more of a cluster have than chance explains: of which kind it is, and how many have it."""

    kind: str
    text: str
    here: int
    of: int
    passing: int
    of_passing: int


class Cluster(NamedTuple):
    """Sessions that failed alike; `what` is their reason without arguments and values, or a fact.

    `shared` are the first steps, which all of their paths have. `parts` is the step at which most of them
    depart from a passing session of the same question, `parted` how many do so there, `compared` how many
    have such a passing session.

    `keys` are their causes. `reasons` are their reasons, each with its number of sessions. `facts`
    distinguish them from passing sessions, the most telling first; the first names a cluster that has several
    reasons, or only some of the sessions with its reason. `look_at` is a line of an example that shows the
    failure.
    """

    what: str
    sessions: tuple[Graded, ...]
    shared: tuple[str, ...]
    parts: str
    parted: int
    compared: int
    reasons: tuple[tuple[str, int], ...] = ()
    facts: tuple[Separated, ...] = ()
    look_at: str = ""
    keys: frozenset[CauseKey] = frozenset()

    @property
    def examples(self) -> tuple[str, ...]:
        """The ids of two sessions, of as many questions as there are."""
        return self.some(_EXAMPLES)

    def some(self, number: int) -> tuple[str, ...]:
        """Return the ids of a number of its sessions, of as many questions as there are."""
        by_question = {one.key: one.session_id for one in reversed(self.sessions)}
        ids = dict.fromkeys([*reversed(by_question.values()), *(one.session_id for one in self.sessions)])
        return tuple(ids)[:number]


# Which tools failed is a set: neither their order nor how often each did makes another cause.


Paths = Mapping[str | None, Sequence[Sequence[str]]]  # of sessions that pass, by question


def passing_paths(sessions: Iterable[Graded]) -> Paths:
    """Return the paths of passing sessions: one for each question, several without a question."""
    passing: dict[str | None, list[Sequence[str]]] = {}
    for one in sessions:
        if one.verdict == Verdict.PASSED and one.trajectory is not None:
            paths = passing.setdefault(one.question_id, [])
            most = _PATHS if one.question_id is None else 1
            if len(paths) < most and one.trajectory not in paths:
                paths.append(one.trajectory)
    return passing


def cluster(what: str, sessions: Sequence[Graded], passing: Paths) -> Cluster:
    """Return sessions that failed alike as a cluster.

    Each is compared with a passing session of the same question or, without a question, with the session
    whose path is equal for the most steps.
    """
    paths = [one.trajectory or () for one in sessions]
    parted = where_paths_differ(paths)
    shared = paths[0] if parted is None else paths[0][: parted.step - 1]
    steps: Counter[str] = Counter()
    compared = 0
    for one in sessions:
        if one.trajectory is not None and one.question_id in passing:
            compared += 1
            differences = [where_paths_differ([path, one.trajectory]) for path in passing[one.question_id]]
            if None not in differences and (
                found := max(filter(None, differences), key=lambda parted: parted.step)
            ):
                steps[f"step {found.step}: {found.names[0]} where it passes, {found.names[1]} here"] += 1
    ((parts, number),) = steps.most_common(1) or [("", 0)]
    return Cluster(what, tuple(sessions), tuple(shared), parts, number, compared)
