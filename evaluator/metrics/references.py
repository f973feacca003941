"""Expected values that refer to a text of the user, at a name in braces, or to an earlier result."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spangrade.converters.datasets.forms import LITERAL, USER, word_of
from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics.matching import AnyOf, is_reference, normal_text, reference_of
from spangrade.evaluator.session import Session, ToolInteraction

ANY_ITEM = "*"  # in a path: any element of a list
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


def refers(expected: Any) -> bool:
    """Return whether an expected value is a reference or has one in it."""
    return is_reference(expected) or any(map(refers, _parts(expected)))


def _parts(expected: Any) -> Iterable[Any]:
    """Return the values in an expected value that may be references, or have one in them."""
    if isinstance(expected, dict):
        return () if word_of(expected) == LITERAL else expected.values()
    return expected if isinstance(expected, list) else ()


def resolved(expected: Any, user_values: Mapping[str, str], earlier: Sequence[ToolInteraction]) -> Any:
    """Return an expected value with each reference in it replaced by the values that it accepts.

    `{"$user": NAME}` is the text of the user that has this name, `{"$result": "TOOL#/PATH"}` the value at a
    path of the result of any of the `earlier` calls of a tool.
    """
    if is_reference(expected):
        kind, name = reference_of(expected)
        if kind == USER:
            return AnyOf((user_values[name],), text=True) if name in user_values else AnyOf(())
        tool, _, path = name.partition("#")
        results = [call.output for call in earlier if call.tool_name == tool and call.output_known]
        return AnyOf(tuple(value for result in results for value in values_at(result, path)))
    if isinstance(expected, dict) and word_of(expected) != LITERAL:
        return {key: resolved(value, user_values, earlier) for key, value in expected.items()}
    if isinstance(expected, list):
        return [resolved(item, user_values, earlier) for item in expected]
    return expected


def result_tools(expected: Any) -> Iterator[str]:
    """Yield the tools to whose results an expected value refers."""
    if is_reference(expected):
        kind, name = reference_of(expected)
        if kind != USER:
            yield name.partition("#")[0]
    for item in _parts(expected):
        yield from result_tools(item)


def lacks_result(call: ToolInteraction) -> bool:
    """Return whether a call may have had a result that is not recorded."""
    return not call.output_known and call.ok is not False and call.ran


def values_at(value: Any, path: str) -> Iterator[Any]:
    """Yield the values at a path such as `/items/0/sku` (a JSON Pointer); `*` is any element of a list."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    values = [value]
    for part in parts:
        values = [item for each in values for item in _items(each, part)]
    yield from values


def _items(value: Any, part: str) -> Sequence[Any]:
    if isinstance(value, dict):
        return (value[part],) if part in value else ()
    if isinstance(value, list):
        if part == ANY_ITEM:
            return value
        if part.isdecimal() and int(part) < len(value):
            return (value[int(part)],)
    return ()
