"""Which golden question a session answers: by the question's id, else by the user inputs."""

from __future__ import annotations

from spangrade.converters.datasets.golden import GoldenDataset, GoldenQuestion
from spangrade.evaluator.metrics.matching import normal_text
from spangrade.evaluator.session import Session


class QuestionIndex:
    """The golden questions by id, by their user inputs, and by every beginning of their user inputs."""

    def __init__(self, dataset: GoldenDataset) -> None:
        self._by_id = {question.id: question for question in dataset.golden_questions}
        self._by_inputs: dict[tuple[str, ...], list[GoldenQuestion]] = {}
        self._by_beginning: dict[tuple[str, ...], list[GoldenQuestion]] = {}
        for question in dataset.golden_questions:
            inputs = tuple(map(normal_text, question.user_inputs))
            self._by_inputs.setdefault(inputs, []).append(question)
            for length in range(1, len(inputs)):
                self._by_beginning.setdefault(inputs[:length], []).append(question)

    def find(self, session: Session) -> tuple[GoldenQuestion, ...]:
        """Return the questions that a session may answer: one if it is clear, none if no question fits.

        A session that carries a question's id answers that question. Else its user inputs decide: the
        questions with the same inputs, or if there are none, those whose inputs begin with the session's
        and those whose inputs the session's begin with.
        """
        if session.question_id is not None:
            question = self._by_id.get(session.question_id)
            return () if question is None else (question,)
        recorded = [turn.user_input for turn in session.turns if turn.user_input is not None]
        if len(recorded) < len(session.turns):
            return ()
        inputs = tuple(map(normal_text, recorded))
        if inputs in self._by_inputs:
            return tuple(self._by_inputs[inputs])
        candidates = list(self._by_beginning.get(inputs, ()))
        for length in range(1, len(inputs)):
            candidates += self._by_inputs.get(inputs[:length], ())
        return tuple(candidates)
