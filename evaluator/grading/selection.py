"""Which of the stored sessions are graded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from spangrade.converters.datasets.golden import GoldenDataset
from spangrade.evaluator.grading.match_questions import NO_ANSWERS, QuestionIndex
from spangrade.evaluator.grading.metadata import Where
from spangrade.evaluator.session import Session


class Selection(NamedTuple):
    """The sessions to grade: those of `session_ids`, that started from `since_ns` on and before `until_ns`.

    Without a condition all are. With `latest_per_question` only the one that started last is graded of those
    that answer the same golden question, and as many of those that answer equal ones. A session whose start
    is unknown is graded whatever the times. With `where` the sessions are graded that may answer a golden
    question for which it holds.
    """

    session_ids: tuple[str, ...] = ()
    since_ns: int | None = None
    until_ns: int | None = None
    latest_per_question: bool = False
    where: Where = Where()

    def ids(
        self, sessions: Iterable[Session], dataset: GoldenDataset, answers: Mapping[str, str] = NO_ANSWERS
    ) -> set[str]:
        """Return the ids of the sessions to grade; `answers` are those of `grade`.

        Raises InputError if `where` holds for no golden question.
        """
        questions = QuestionIndex(dataset, answers)
        selected = {question.id for question in self.where.chosen(dataset).golden_questions}
        chosen: set[str] = set()
        by_questions: dict[tuple[str, ...], list[tuple[int, str]]] = {}
        for session in sessions:
            if not self._includes(session):
                continue
            candidates = questions.find(session)
            names = tuple(question.id for question in candidates)
            if self.where.comparisons and selected.isdisjoint(names):
                continue
            if self.latest_per_question and len(questions.expectations(candidates)) == 1:
                by_questions.setdefault(names, []).append((session.start_ns or 0, session.session_id))
            else:
                chosen.add(session.session_id)
        latest = (sorted(each)[-len(names) :] for names, each in by_questions.items())
        return chosen.union(session_id for each in latest for _, session_id in each)

    def _includes(self, session: Session) -> bool:
        if self.session_ids and session.session_id not in self.session_ids:
            return False
        if session.start_ns is None:
            return True
        is_early = self.since_ns is not None and session.start_ns < self.since_ns
        return not is_early and (self.until_ns is None or session.start_ns < self.until_ns)


ALL = Selection()
