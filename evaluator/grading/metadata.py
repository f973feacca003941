"""The metadata of golden questions: conditions that choose questions, and the groups of a run's results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from json import JSONDecoder
from typing import Any, NamedTuple

from spangrade.converters.datasets.golden import GoldenDataset, GoldenQuestion
from spangrade.evaluator.metrics.matching import json_equal
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import FieldError

NO_VALUE = "(no value)"
NO_QUESTION = "(no question)"

_PATH = re.compile(r"\s*metadata\.([^\s=!'\"]+|\"[^\"]+\"|'[^']+')")
_OPERATOR = re.compile(r"\s*(!=|=)")
_VALUE = re.compile(r"\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s=!'\"]+))")
_IDS = re.compile(r"\s*id in (?=\[)")
_AND = re.compile(r"\s+and(?=\s)", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_CONSTANTS = {"true": True, "false": False, "null": None}


class KeyComparison(NamedTuple):
    """`metadata.KEY = VALUE`, or `!=` if `equal` is false; `values` are what the written value may mean."""

    key: str
    equal: bool
    values: tuple[Any, ...]

    def holds(self, question: GoldenQuestion) -> bool:
        """Return whether it holds; a list equals each of its elements, and `!=` is the rest."""
        known, value = metadata_value(question, self.key)
        items = [value, *value] if isinstance(value, list) else [value]
        matches = known and any(json_equal(item, each) for item in items for each in self.values)
        return matches is self.equal


class Where(NamedTuple):
    """Conditions on the metadata of a golden question, all of which must hold; without any, all questions."""

    comparisons: tuple[KeyComparison, ...] = ()
    ids: tuple[str, ...] | None = None  # the only questions for which they may hold

    def chosen(self, dataset: GoldenDataset) -> GoldenDataset:
        """Return the questions for which the conditions hold.

        Raises InputError if no question has one of the keys, or the conditions hold for none.
        """
        if not self.comparisons and self.ids is None:
            return dataset
        questions = dataset.golden_questions
        if self.ids is not None:
            known = [question.id for question in questions]
            for name in self.ids:
                if name not in known:
                    raise FieldError("select.questions", _unknown_id(name, known))
            questions = tuple(question for question in questions if question.id in self.ids)
        for comparison in self.comparisons:
            check_key(comparison.key, questions, "select.where")
        chosen = tuple(q for q in questions if all(comparison.holds(q) for comparison in self.comparisons))
        if not chosen:
            raise FieldError("select.where", "it holds for no golden question")
        return GoldenDataset(golden_questions=chosen)


def parse_where(text: str) -> Where:
    """Return conditions such as `metadata.complexity = high and metadata.priority != 2`.

    A value is a word, a number, true, false, null, or text in quotes. A number or a constant without quotes
    also equals the same text. Raises InputError for anything else.
    """
    comparisons: list[KeyComparison] = []
    position, ids = 0, None
    if (start := _IDS.match(text)) is not None:
        ids, position = JSONDecoder().raw_decode(text, start.end())
        ids = tuple(map(str, ids))
        if not text[position:].strip():
            return Where((), ids)
        if (conjunction := _AND.match(text, position)) is None:
            raise _unexpected(text, position, '"and"')
        position = conjunction.end()
    while True:
        parts = []
        for pattern, expected in (
            (_PATH, "metadata.KEY"),
            (_OPERATOR, "= or !="),
            (_VALUE, "a word, a number, or text in quotes"),
        ):
            match = pattern.match(text, position)
            if match is None:
                raise _unexpected(text, position, expected)
            parts.append(match)
            position = match.end()
        path, operator, value = parts
        comparisons.append(KeyComparison(path[1].strip("\"'"), operator[1] == "=", _values(value)))
        if not text[position:].strip():
            return Where(tuple(comparisons), ids)
        conjunction = _AND.match(text, position)
        if conjunction is None:
            raise _unexpected(text, position, '"and"')
        position = conjunction.end()


def _unknown_id(name: str, known: Sequence[str]) -> str:
    """Return an error: no question has an id, with the id or the session that may be meant."""
    if "=" in name and name.rpartition("=")[2] in known:
        return f"no golden question {name!r}: the question that a session answers is --answers {name}"
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known[:10])}"
    return f"no golden question {name!r}; {hint}"


def _values(match: re.Match[str]) -> tuple[Any, ...]:
    double, single, word = match.groups()
    if word is None:
        return (single if double is None else double,)
    if word in _CONSTANTS:
        return _CONSTANTS[word], word
    if _NUMBER.fullmatch(word):
        return float(word) if re.search(r"[.eE]", word) else int(word), word
    return (word,)


def _unexpected(text: str, position: int, expected: str) -> InputError:
    found = f'found "{text[position:].strip():.40}"' if text[position:].strip() else "found the end"
    return FieldError("select.where", f"expected {expected}, {found} in {text!r}")


class Groups(NamedTuple):
    """The groups of golden questions by a key of their metadata: the name of each one's group, by its id."""

    by: str
    names: Mapping[str, str]

    def of(self, question_id: str | None) -> str:
        """Return the group of the results of a question, or of those without a question."""
        return NO_QUESTION if question_id is None else self.names.get(question_id, NO_QUESTION)


def groups_of(text: str, dataset: GoldenDataset) -> Groups:
    """Return the groups by `metadata.KEY`.

    Raises InputError for any other text, or if no question has the key.
    """
    match = _PATH.fullmatch(text.rstrip())
    if match is None:
        raise FieldError("group_by", f"expected metadata.KEY, found {text!r}")
    key = match[1].strip("\"'")
    check_key(key, dataset.golden_questions, "group_by")
    return Groups(
        f"metadata.{key}", {question.id: _group(question, key) for question in dataset.golden_questions}
    )


def _group(question: GoldenQuestion, key: str) -> str:
    known, value = metadata_value(question, key)
    if not known:
        return NO_VALUE
    return value if isinstance(value, str) else dumps(value)


def check_key(key: str, questions: Iterable[GoldenQuestion], name: str) -> None:
    """Raise FieldError, of the field `name`, if none of the questions has a key in its metadata."""
    keys: dict[str, None] = {}
    for question in questions:
        if metadata_value(question, key)[0]:
            return
        keys.update(dict.fromkeys(question.metadata))
    near = get_close_matches(key, keys, n=1)
    hint = f'did you mean "metadata.{near[0]}"?' if near else f"the keys are {', '.join(keys) or 'none'}"
    raise FieldError(name, f'no golden question has "metadata.{key}"; {hint}')


def metadata_value(question: GoldenQuestion, key: str) -> tuple[bool, Any]:
    """Return whether a question has a key, and its value; `a.b` is that key, or `b` in the object `a`."""
    if key in question.metadata:
        return True, question.metadata[key]
    value: Any = question.metadata
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            return False, None
        value = value[part]
    return True, value
