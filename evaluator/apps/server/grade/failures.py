"""The sessions that failed since the start, counted by what they have in common: for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from spangrade.evaluator.apps.server.grade.totals import MAX_SERIES, OTHER, Labels
from spangrade.evaluator.grading.run import Grade
from spangrade.evaluator.statistics.clusters import FAILING
from spangrade.evaluator.statistics.comparison.graded import Graded
from spangrade.evaluator.statistics.failure_causes.causes import cause_keys, part_text
from spangrade.tracer import semconv
from spangrade.tracer.store import Store

MOST_CAUSES = 20  # of a process; what fails by others is `other`
_LONGEST = 120  # characters of a cause


class Failed(NamedTuple):
    """The series of a failed session: its agent, its service and its cause; a name is empty if unknown."""

    agent: str
    service: str
    cause: str


class Failures:
    """Counts failed sessions; labels do not grow with what agents do."""

    def __init__(self) -> None:
        self.counts: Counter[Failed] = Counter()
        self._causes: set[str] = set()

    def add(self, store: Store, grades: Mapping[str, tuple[Grade, Labels]]) -> None:
        """Count the failures among sessions whose grades are stored, by their ids."""
        failures = [
            Graded(name, None, one.verdict, one.reason)
            for name, (one, _) in grades.items()
            if one.verdict in FAILING
        ]
        for name, key in cause_keys(store, failures).items():
            cause = " and ".join(map(part_text, sorted(key)))[:_LONGEST]
            if cause not in self._causes and len(self._causes) >= MOST_CAUSES:
                cause = OTHER
            elif cause != OTHER:
                self._causes.add(cause)
            labels = dict(grades[name][1])
            agent, service = (labels.get(one, "") for one in (semconv.AGENT_NAME, semconv.SERVICE_NAME))
            series = Failed(agent, service, cause)
            if series not in self.counts and len(self.counts) >= MAX_SERIES:
                series = Failed(OTHER, OTHER, OTHER)
            self.counts[series] += 1
