"""Which golden question a session answers: by the question's id, else by the user inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType

from spangrade.converters.datasets.golden import GoldenDataset, GoldenQuestion
from spangrade.evaluator.metrics.matching import normal_text
from spangrade.evaluator.metrics.user_values import InputPattern, input_pattern
from spangrade.evaluator.session import Session
from spangrade.tracer.canonical_json import canonical
from spangrade.tracer.fields import FieldError

NO_ANSWERS: Mapping[str, str] = MappingProxyType({})


class QuestionIndex:
    """The golden questions by id, by their user inputs, and by every beginning of their user inputs.

    `answers` maps the id of a session to the id of the question that it answers, whatever its spans record.
    """

    def __init__(self, dataset: GoldenDataset, answers: Mapping[str, str] = NO_ANSWERS) -> None:
        self._answers = answers
        self._expected: dict[str, str] = {}  # by id, for the questions that compete for a session
        self._by_id = {question.id: question for question in dataset.golden_questions}
        self._by_inputs: dict[tuple[str, ...], list[GoldenQuestion]] = {}
        self._by_beginning: dict[tuple[str, ...], list[GoldenQuestion]] = {}
        self._patterns: dict[str, list[tuple[InputPattern, GoldenQuestion]]] = {}  # by first word
        for question in dataset.golden_questions:
            if question.user_values:
                pattern = input_pattern(question)
                self._patterns.setdefault(pattern.first_word, []).append((pattern, question))
                continue
            inputs = tuple(map(normal_text, question.user_inputs))
            self._by_inputs.setdefault(inputs, []).append(question)
            for length in range(1, len(inputs)):
                self._by_beginning.setdefault(inputs[:length], []).append(question)

    def find(self, session: Session) -> tuple[GoldenQuestion, ...]:
        """Return the questions that a session may answer: one if it is clear, none if no question fits.

        A session for which `answers` or its spans give a question's id answers that question. Else its user
        inputs decide: the questions with the same inputs, or if there are none, those whose inputs begin with
        the session's and those whose inputs the session's begin with. Inputs with values match any text in
        their place; of several questions those that leave the least to values are taken.
        """
        question_id = self._answers.get(session.session_id, session.question_id)
        if question_id is not None:
            question = self._by_id.get(question_id)
            return () if question is None else (question,)
        recorded = [turn.user_input for turn in session.turns if turn.user_input is not None]
        if len(recorded) < len(session.turns):
            return ()
        inputs = tuple(map(normal_text, recorded))
        if inputs in self._by_inputs:
            return tuple(self._by_inputs[inputs])
        matching = self._matching(inputs)
        if whole := [(pattern, question) for pattern, question in matching if _answers(question, inputs)]:
            longest = max(pattern.literal_length for pattern, _ in whole)
            return tuple(question for pattern, question in whole if pattern.literal_length == longest)
        candidates = [question for _, question in matching]
        candidates += self._by_beginning.get(inputs, ())
        for length in range(1, len(inputs)):
            candidates += self._by_inputs.get(inputs[:length], ())
        return tuple(candidates)

    def _matching(self, inputs: Sequence[str]) -> list[tuple[InputPattern, GoldenQuestion]]:
        """Return the questions with `user_values` that texts match, as far as there are both."""
        if not inputs:
            return []
        patterns = [*self._patterns.get(inputs[0].partition(" ")[0], ()), *self._patterns.get("", ())]
        return [one for one in patterns if one[0].values(inputs) is not None]

    def expectations(self, candidates: Sequence[GoldenQuestion]) -> list[list[GoldenQuestion]]:
        """Return questions in groups that expect the same: equal user inputs, agents and references.

        Which question of a group a session answers does not change its grade.
        """
        if len(candidates) == 1:
            return [list(candidates)]
        groups: dict[str, list[GoldenQuestion]] = {}
        for question in candidates:
            if question.id not in self._expected:
                inputs = tuple(map(normal_text, question.user_inputs))
                expected = question.model_dump(mode="json", include={"agents_evaluated", "reference_data"})
                self._expected[question.id] = canonical([inputs, expected])
            groups.setdefault(self._expected[question.id], []).append(question)
        return list(groups.values())


def _answers(question: GoldenQuestion, inputs: Sequence[str]) -> bool:
    return len(question.user_inputs) == len(inputs)


def check_answers(answers: Mapping[str, str], dataset: GoldenDataset) -> None:
    """Raise InputError for an answer to a golden question that is not in a dataset."""
    known = [question.id for question in dataset.golden_questions]
    for session_id, question_id in answers.items():
        if question_id not in known:
            near = get_close_matches(question_id, known, n=1)
            hint = f'; did you mean "{near[0]}"?' if near else ""
            problem = f'no golden question has the id "{question_id}"{hint}'
            raise FieldError("select.answers", problem, session_id)


def least_answered(group: Sequence[GoldenQuestion], sessions: Counter[str]) -> GoldenQuestion:
    """Return the first question of a group among those that the fewest sessions were counted for."""
    return min(group, key=lambda question: sessions[question.id])
