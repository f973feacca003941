"""User inputs that are equal up to values: which sessions say the same, and where they have values."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from spangrade.evaluator.metrics.matching import normal_text
from spangrade.evaluator.metrics.user_values import pattern_of
from spangrade.evaluator.session import Session

# What looks like a value: a word with a digit, a name within a sentence (words with a capital), a quotation.
_VALUE = re.compile(
    r"[\"“'‘](?<!\w.)[^\"”'’]{1,100}[\"”'’](?!\w)"
    r"|[^\s,;:!?()\[\]]*\d(?:[^\s,;!?()\[\]]*[^\s.,;:!?()\[\]])?"
    r"|(?<![.!?:] )(?<!^)(?<![\w.])[^\W\d_a-z]\w+(?:[ -][^\W\d_a-z]\w+)*"
)
_LONGEST = 200  # characters of a value of a call that is looked for in a text
_MOST_VALUES = 500  # of a session's calls that are looked for in its texts


class Group(NamedTuple):
    """Sessions whose user inputs are equal up to values.

    `user_inputs` has names in braces for values. `values` are those of each session, by name, in the order of
    `sessions`.
    """

    sessions: tuple[Session, ...]
    user_inputs: tuple[str, ...]
    names: tuple[str, ...]
    values: tuple[dict[str, str], ...]


def groups_of(sessions: Iterable[Session], mask: Callable[[str], str], *, dedupe: bool) -> list[Group]:
    """Return sessions in groups with equal user inputs, up to values with `dedupe`; the largest first.

    What looks like a value, or is one of a call's arguments or results, is a value where it differs between
    the sessions of a group, or where `mask` replaces it.
    """
    by_texts: dict[tuple[Any, ...], list[tuple[Session, list[list[str]]]]] = defaultdict(list)
    for session in sessions:
        texts = [normal_text(turn.user_input or "") for turn in session.turns]
        known = _values_of(session)
        split = [_split(text, known) for text in texts]
        key = [parts[::2] for parts in split] if dedupe else texts
        by_texts[tuple(map(str, key))].append((session, split))
    made = [_group(members, mask) for _, members in sorted(by_texts.items(), key=lambda item: -len(item[1]))]
    return _joined(made) if dedupe else made


def _group(members: Sequence[tuple[Session, list[list[str]]]], mask: Callable[[str], str]) -> Group:
    """Return a group of sessions whose texts are split in the same literal pieces.

    A literal piece with something to mask is a value too.
    """
    sessions = tuple(session for session, _ in members)
    names: dict[tuple[str, ...], str] = {}
    literal_text = " ".join(part for parts in members[0][1] for part in parts[::2])
    inputs = []
    for turn in range(len(members[0][1])):
        pieces = list(members[0][1][turn])
        for place in range(len(pieces)):
            column = tuple(split[turn][place] for _, split in members)
            if len(set(column)) > 1 or mask(column[0]) != column[0]:
                pieces[place] = "{" + names.setdefault(column, _name(len(names), literal_text)) + "}"
        inputs.append("".join(pieces))
    rows = [{name: column[index] for column, name in names.items()} for index in range(len(members))]
    return Group(sessions, tuple(inputs), tuple(names.values()), tuple(rows))


def _name(number: int, text: str) -> str:
    """Return a name that the text does not have in braces already."""
    name = f"value{number + 1}"
    return name if "{" + name + "}" not in text else f"{name}_of_user"


def _joined(groups: Sequence[Group]) -> list[Group]:
    """Return groups without those whose texts an earlier, larger group accepts: their sessions join it."""
    by_length: dict[int, list[Group]] = defaultdict(list)
    for group in groups:
        same_length = by_length[len(group.user_inputs)]
        for index, larger in enumerate(same_length):
            pattern = pattern_of(larger.user_inputs, larger.names)
            values = [
                pattern.values([turn.user_input or "" for turn in session.turns])
                for session in group.sessions
            ]
            known = [row for row in values if row is not None]
            if len(known) == len(values):
                same_length[index] = Group(
                    (*larger.sessions, *group.sessions),
                    larger.user_inputs,
                    larger.names,
                    (*larger.values, *known),
                )
                break
        else:
            same_length.append(group)
    return sorted((one for many in by_length.values() for one in many), key=lambda one: -len(one.sessions))


def _split(text: str, known: Sequence[str]) -> list[str]:
    """Return a text in pieces, literal ones and values in turn, the first and the last literal."""
    looks = [found.span() for found in _VALUE.finditer(text)]
    words = [(start, end) for start, end in looks if any(map(str.isdigit, text[start:end]))]
    spans: list[tuple[int, int]] = []
    for value in known:
        found = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", text)]
        # A part of a number or a date is not what a call has: the whole one is.
        spans += (one for one in found if one in words or not any(_overlap(one, word) for word in words))
    spans += (one for one in looks if one in words or not any(_overlap(one, span) for span in spans))
    pieces: list[str] = []
    last = 0
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start < last:
            continue
        pieces += (text[last:start], text[start:end])
        last = end
    return [*pieces, text[last:]]


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _values_of(session: Session) -> list[str]:
    """Return the texts and numbers in a session's calls, as texts, the longest first."""
    found: dict[str, None] = {}
    for call in session.tool_interactions:
        for value in (*leaves(call.input_arguments), *leaves(call.output)):
            text = normal_text(value) if isinstance(value, str) else f"{value:g}"
            if len(text) > 1 and len(text) <= _LONGEST and len(found) < _MOST_VALUES:
                found[text] = None
    return sorted(found, key=len, reverse=True)


def leaves(value: Any) -> Iterator[str | int | float]:
    """Yield the texts and numbers in a JSON value."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value
