"""Values in the user's texts: golden questions whose `user_inputs` have names in braces for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics.matching import normal_text
from spangrade.evaluator.session import Session

# A text is literal pieces with the name of a value between each two of them.
_Pieces = tuple[tuple[str, ...], tuple[str, ...]]


class InputPattern(NamedTuple):
    """The user inputs of a question; texts are compared in the form of `normal_text`."""

    inputs: tuple[_Pieces, ...]

    @property
    def words(self) -> frozenset[str]:
        """The words of the first text that no value can be a part of."""
        literals, _ = self.inputs[0]
        found: set[str] = set()
        for place, literal in enumerate(literals):
            words = literal.split(" ")
            found.update(words[place > 0 : len(words) - (place < len(literals) - 1)])
        return frozenset(found - {""})

    @property
    def literal_length(self) -> int:
        """The number of characters that are not values: of two patterns, the longer one says more."""
        return sum(len(literal) for literals, _ in self.inputs for literal in literals)

    def values(self, texts: Sequence[str]) -> dict[str, str] | None:
        """Return the value of each name if texts match the inputs, as far as there are both; else None."""
        values: dict[str, str] = {}
        for (literals, names), text in zip(self.inputs, texts, strict=False):
            found = between(literals, normal_text(text))
            if found is None:
                return None
            for name, value in zip(names, found, strict=True):
                if values.setdefault(name, value) != value:
                    return None
        return values


def input_pattern(question: GoldenQuestion) -> InputPattern:
    """Return the pattern of a question's user inputs; without `user_values` each is one literal text."""
    return pattern_of(question.user_inputs, question.user_values)


def pattern_of(user_inputs: Sequence[str], names: Sequence[str]) -> InputPattern:
    """Return the pattern of texts in which each of the names stands, in braces, for any text."""
    if not names:
        return InputPattern(tuple(((normal_text(text),), ()) for text in user_inputs))
    split = re.compile("{(" + "|".join(map(re.escape, names)) + ")}")
    parts = [split.split(normal_text(text)) for text in user_inputs]
    return InputPattern(tuple((tuple(part[::2]), tuple(part[1::2])) for part in parts))


def user_values(session: Session, question: GoldenQuestion) -> Mapping[str, str]:
    """Return the texts of a session for which the names in a question stand; empty if it has none."""
    if not question.user_values:
        return {}
    texts = [turn.user_input for turn in session.turns]
    known = [text for text in texts if text is not None]
    return (input_pattern(question).values(known) if len(known) == len(texts) else None) or {}


def between(literals: Sequence[str], text: str) -> list[str] | None:
    """Return the texts between literal ones, none of them empty; None if a text does not have these.

    Each literal is taken where it occurs first, which finds a way if there is one, in linear time.
    """
    if len(literals) == 1:
        return [] if text == literals[0] else None
    first, *middle, last = literals
    if not text.startswith(first) or not text.endswith(last):
        return None
    end = len(text) - len(last)
    values: list[str] = []
    start = len(first)
    for literal in middle:
        place = text.find(literal, start + 1, end)
        if place < 0:
            return None
        values.append(text[start:place])
        start = place + len(literal)
    if start >= end:
        return None
    return [*values, text[start:end]]
