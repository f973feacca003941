"""Which of the stored sessions are graded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from spangrade.converters.datasets.golden import GoldenDataset
from spangrade.evaluator.grading.match_questions import QuestionIndex
from spangrade.evaluator.session import Session


class Selection(NamedTuple):
    """The sessions to grade: those of `session_ids`, that started from `since_ns` on and before `until_ns`.

    Without a condition all are. With `latest_per_question` only the one that started last is graded of those
    that answer the same golden question. A session whose start is unknown is graded whatever the times.
    """

    session_ids: tuple[str, ...] = ()
    since_ns: int | None = None
    until_ns: int | None = None
    latest_per_question: bool = False

    def ids(self, sessions: Iterable[Session], dataset: GoldenDataset) -> set[str]:
        """Return the ids of the sessions to grade."""
        questions = QuestionIndex(dataset)
        chosen: set[str] = set()
        latest: dict[str, tuple[int, str]] = {}
        for session in sessions:
            if not self._includes(session):
                continue
            candidates = questions.find(session)
            if self.latest_per_question and len(candidates) == 1:
                newest = (session.start_ns or 0, session.session_id)
                latest[candidates[0].id] = max(latest.get(candidates[0].id, newest), newest)
            else:
                chosen.add(session.session_id)
        return chosen | {session_id for _, session_id in latest.values()}

    def _includes(self, session: Session) -> bool:
        if self.session_ids and session.session_id not in self.session_ids:
            return False
        if session.start_ns is None:
            return True
        is_early = self.since_ns is not None and session.start_ns < self.since_ns
        return not is_early and (self.until_ns is None or session.start_ns < self.until_ns)


ALL = Selection()
