"""Which golden question a session answers: by the question's id, else by the user inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from heapq import heapreplace
from operator import itemgetter
from types import MappingProxyType

from spangrade.converters.datasets.golden import GoldenDataset, GoldenQuestion
from spangrade.evaluator.metrics.matching import normal_text
from spangrade.evaluator.metrics.references import InputPattern, input_pattern
from spangrade.evaluator.session import Session
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.base.fields import FieldError

NO_ANSWERS: Mapping[str, str] = MappingProxyType({})


class EqualQuestions:
    """Golden questions that expect the same: which of them a session answers does not change its grade."""

    def __init__(self, questions: Iterable[GoldenQuestion]) -> None:
        self.questions = tuple(questions)
        self._by_sessions = [(0, place) for place in range(len(self.questions))]  # a heap

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The ids of the questions."""
        return tuple(question.id for question in self.questions)

    def least_answered(self, sessions: Counter[str]) -> GoldenQuestion:
        """Return the first question of those that the fewest sessions answer; the counts may only grow."""
        heap = self._by_sessions
        while (count := sessions[self.ids[heap[0][1]]]) > heap[0][0]:
            heapreplace(heap, (count, heap[0][1]))
        return self.questions[heap[0][1]]


class Candidates:
    """The golden questions that a session may answer.

    Sessions with equal user inputs share one: what there is to know of many questions is found once.
    """

    def __init__(
        self, questions: Iterable[GoldenQuestion], expected: Callable[[GoldenQuestion], str]
    ) -> None:
        self.questions = tuple(questions)
        self._expected = expected

    @cached_property
    def groups(self) -> tuple[EqualQuestions, ...]:
        """The questions in groups that expect the same: equal user inputs, agents and references."""
        if len(self.questions) == 1:
            return (EqualQuestions(self.questions),)
        groups: dict[str, list[GoldenQuestion]] = {}
        for question in self.questions:
            groups.setdefault(self._expected(question), []).append(question)
        return tuple(map(EqualQuestions, groups.values()))

    @cached_property
    def ids(self) -> frozenset[str]:
        """The ids of the questions."""
        return frozenset(question.id for question in self.questions)

    @cached_property
    def lengths(self) -> frozenset[int]:
        """The numbers of user inputs that the questions have."""
        return frozenset(len(question.user_inputs) for question in self.questions)


class QuestionIndex:
    """The golden questions by id and by their user inputs.

    Each beginning of the user inputs of a question has a number, from which a text leads to the next: work
    grows with the number of texts, however long a conversation is. `answers` maps the id of a session to the
    id of the question that it answers, whatever its spans record.
    """

    def __init__(self, dataset: GoldenDataset, answers: Mapping[str, str] = NO_ANSWERS) -> None:
        self._answers = answers
        self._expectations: dict[str, str] = {}  # by id, for the questions that compete for a session
        self._shared: dict[int, Candidates] = {}  # by the identity of one of the lists below
        self._by_id = {question.id: question for question in dataset.golden_questions}
        self._next: dict[tuple[int, str], int] = {}  # from 0, that of no texts
        self._whole: dict[int, list[GoldenQuestion]] = {}
        self._longer: dict[int, list[GoldenQuestion]] = {}
        self._patterns = _by_rarest_word(
            [one for one in dataset.golden_questions if one.user_values and one.user_inputs]
        )
        for question in dataset.golden_questions:
            if question.user_values or question.scenario is not None or not question.user_inputs:
                continue  # without fixed inputs: its sessions have its id
            number = 0
            for place, text in enumerate(question.user_inputs):
                if place:
                    self._longer.setdefault(number, []).append(question)
                number = self._next.setdefault((number, normal_text(text)), len(self._next) + 1)
            self._whole.setdefault(number, []).append(question)

    def _of(self, *questions: GoldenQuestion) -> Candidates:
        return Candidates(questions, self._expected)

    def _of_list(self, questions: list[GoldenQuestion]) -> Candidates:
        """Return the candidates of a list of this index: of many the same object each time."""
        if len(questions) == 1:
            return self._of(*questions)
        found = self._shared.get(id(questions))
        if found is None:
            found = self._shared[id(questions)] = self._of(*questions)
        return found

    def find(self, session: Session) -> Candidates:
        """Return the questions that a session may answer: one if it is clear, none if no question fits.

        A session for which `answers` or its spans give a question's id answers that question. Else its user
        inputs decide: the questions with the same inputs or, without such a question, those of which one
        side's inputs are the beginning of the other's. Inputs with values match any text in their place; of
        several questions those that leave the least to values are taken.
        """
        question_id = self._answers.get(session.session_id, session.question_id)
        if question_id is not None:
            return self._of(self._by_id[question_id]) if question_id in self._by_id else self._of()
        if lacks_texts(session):
            return self._of()
        inputs = tuple(normal_text(turn.user_input or "") for turn in session.turns)
        beginnings = self._beginnings(inputs)
        last = beginnings.pop() if len(beginnings) == len(inputs) > 0 else 0
        if last in self._whole:
            return self._of_list(self._whole[last])
        matching = self._matching(inputs)
        if whole := [(pattern, q) for pattern, q in matching if len(q.user_inputs) == len(inputs)]:
            longest = max(pattern.literal_length for pattern, _ in whole)
            return self._of(*(q for pattern, q in whole if pattern.literal_length == longest))
        lists = [self._longer.get(last, []), *(self._whole.get(number, []) for number in beginnings)]
        found = [each for each in lists if each]
        if not matching and len(found) == 1:
            return self._of_list(found[0])
        return self._of(*(q for _, q in matching), *(q for each in found for q in each))

    def _beginnings(self, texts: Iterable[str]) -> list[int]:
        """Return the numbers of the beginnings of texts that questions have, the shortest first."""
        numbers: list[int] = []
        for text in texts:
            number = self._next.get((numbers[-1] if numbers else 0, text))
            if number is None:
                break
            numbers.append(number)
        return numbers

    def _matching(self, inputs: Sequence[str]) -> list[tuple[InputPattern, GoldenQuestion]]:
        """Return the questions with `user_values` that texts match, as far as there are both."""
        if not inputs or not self._patterns:
            return []
        words = {"", *inputs[0].split(" ")}
        found = [one for word in words for one in self._patterns.get(word, ())]
        matching = [one for one in found if one[1].values(inputs) is not None]
        return [(pattern, question) for _, pattern, question in sorted(matching, key=itemgetter(0))]

    def _expected(self, question: GoldenQuestion) -> str:
        """Return a question's expectation; see `expectation`."""
        known = self._expectations.get(question.id)
        if known is None:
            known = self._expectations[question.id] = expectation(question)
        return known


def lacks_texts(session: Session) -> bool:
    """Return whether texts of the user decide which question a session answers, and one is not recorded."""
    return session.question_id is None and any(turn.user_input is None for turn in session.turns)


def expectation(question: GoldenQuestion) -> str:
    """Return a question's user inputs (or else its id), agents and references as one text."""
    inputs = tuple(map(normal_text, question.user_inputs)) or question.id
    expected = question.model_dump(mode="json", include={"agents_evaluated", "reference_data", "scenario"})
    return canonical([inputs, expected])


def share_sessions(dataset: GoldenDataset) -> bool:
    """Return whether questions expect the same, so that they share their sessions in their order."""
    by_inputs: dict[tuple[str, ...], list[GoldenQuestion]] = {}
    for question in dataset.golden_questions:
        by_inputs.setdefault(tuple(map(normal_text, question.user_inputs)), []).append(question)
    return any(len(set(map(expectation, each))) < len(each) for each in by_inputs.values() if len(each) > 1)


def _by_rarest_word(
    questions: Sequence[GoldenQuestion],
) -> dict[str, list[tuple[int, InputPattern, GoldenQuestion]]]:
    """Return questions with `user_values`, with their place and pattern, by one word of their first text.

    It is the one that the fewest of them have, "" if a text has no whole word: 4,000 texts that begin alike
    and have a word of their own are told apart at once.
    """
    patterns = [input_pattern(question) for question in questions]
    words = [pattern.words for pattern in patterns]
    uses = Counter(word for each in words for word in each)
    index: dict[str, list[tuple[int, InputPattern, GoldenQuestion]]] = {}
    for place, (question, pattern, each) in enumerate(zip(questions, patterns, words, strict=True)):
        rarest = min(sorted(each), key=uses.__getitem__, default="")
        index.setdefault(rarest, []).append((place, pattern, question))
    return index


def check_answers(answers: Mapping[str, str], dataset: GoldenDataset) -> None:
    """Raise InputError for an answer to a golden question that is not in a dataset."""
    known = [question.id for question in dataset.golden_questions]
    for session_id, question_id in answers.items():
        if question_id not in known:
            near = get_close_matches(question_id, known, n=1)
            hint = f'; did you mean "{near[0]}"?' if near else ""
            problem = f'no golden question has the id "{question_id}"{hint}'
            raise FieldError("select.answers", problem, session_id)
