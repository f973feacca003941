"""User inputs that are equal up to values: which sessions say the same, and where they have values."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from spangrade.evaluator.metrics.matching import normal_text
from spangrade.evaluator.metrics.references import InputPattern, between, pattern_of
from spangrade.evaluator.session import Session

# What looks like a value: a word with a digit, a name within a sentence (words with a capital), a quotation.
_VALUE = re.compile(
    r"[\"“'‘](?<!\w.)[^\"”'’]{1,100}[\"”'’](?!\w)"
    r"|[^\s,;:!?()\[\]]{0,50}\d(?:[^\s,;!?()\[\]]{0,200}[^\s.,;:!?()\[\]])?"
    r"|(?<![.!?:] )(?<!^)(?<![\w.])[^\W\d_a-z]\w+(?:[ -][^\W\d_a-z]\w+)*"
)
_MASKED = re.compile(r"\[[a-z_]+(?::[0-9a-f]{16})?\]")
_LONGEST = 200  # characters of a value of a call that is looked for in a text
_MOST_VALUES = 500  # of a session's calls that are looked for in its texts


class SessionGroup(NamedTuple):
    """Sessions whose user inputs are equal up to values.

    `user_inputs` has names in braces for values. `values` are those of each session, by name, in the order of
    `sessions`.
    """

    sessions: tuple[Session, ...]
    user_inputs: tuple[str, ...]
    names: tuple[str, ...]
    values: tuple[dict[str, str], ...]


def groups_of(sessions: Iterable[Session], mask: Callable[[str], str], *, dedupe: bool) -> list[SessionGroup]:
    """Return sessions in groups with equal user inputs, up to values with `dedupe`; the largest first.

    What looks like a value, or is one of a call's arguments or results, is a value where it differs between
    the sessions of a group, or where `mask` replaces it.
    """
    by_texts: dict[tuple[str, ...], list[tuple[Session, list[list[str]]]]] = defaultdict(list)
    personal: set[str] = set()
    for session in sessions:
        texts = [normal_text(turn.user_input or "") for turn in session.turns]
        known = _values_of(session) if dedupe else ()
        masked = [_masked_spans(text, mask) for text in texts]
        personal.update(
            text[start:end] for text, spans in zip(texts, masked, strict=True) for start, end in spans
        )
        split = [_split(text, spans, known) for text, spans in zip(texts, masked, strict=True)]
        key = [parts[::2] for parts in split] if dedupe else texts
        by_texts[tuple(map(str, key))].append((session, split))
    largest_first = sorted(by_texts.values(), key=len, reverse=True)
    made = [_group(members, personal) for members in largest_first]
    return _joined(made) if dedupe else made


def _group(members: Sequence[tuple[Session, list[list[str]]]], personal: Collection[str]) -> SessionGroup:
    """Return a group of sessions whose texts are split in the same literal pieces.

    What differs between them, and what is `personal`, is a value; the rest is literal.
    """
    sessions = tuple(session for session, _ in members)
    names: dict[tuple[str, ...], str] = {}
    literal_text = " ".join(part for parts in members[0][1] for part in parts[::2])
    inputs = []
    for turn in range(len(members[0][1])):
        pieces = list(members[0][1][turn])
        for place in range(1, len(pieces), 2):
            column = tuple(split[turn][place] for _, split in members)
            if len(set(column)) > 1 or column[0] in personal:
                pieces[place] = "{" + names.setdefault(column, _name(len(names), literal_text)) + "}"
        inputs.append("".join(pieces))
    rows = [{name: column[index] for column, name in names.items()} for index in range(len(members))]
    return SessionGroup(sessions, tuple(inputs), tuple(names.values()), tuple(rows))


def _name(number: int, text: str) -> str:
    """Return a name that the text does not have in braces already."""
    name = f"value{number + 1}"
    return name if "{" + name + "}" not in text else f"{name}_of_user"


def _joined(groups: Sequence[SessionGroup]) -> list[SessionGroup]:
    """Return groups without those whose texts an earlier, larger group accepts: their sessions join it."""
    kept: list[SessionGroup] = []
    by_texts: dict[tuple[str, ...], int] = {}
    patterns: dict[int, list[tuple[InputPattern, int]]] = defaultdict(list)  # by number of turns
    for group in groups:
        turns = len(group.user_inputs)
        rows: list[dict[str, str] | None] = [{} for _ in group.sessions]
        index = None if group.names else by_texts.get(group.user_inputs)
        for pattern, place in patterns[turns] if index is None else ():
            rows = [pattern.values([turn.user_input or "" for turn in one.turns]) for one in group.sessions]
            if None not in rows:
                index = place
                break
        if index is None:
            if group.names:
                patterns[turns].append((pattern_of(group.user_inputs, group.names), len(kept)))
            else:
                by_texts[group.user_inputs] = len(kept)
            kept.append(group)
        else:
            values = (*kept[index].values, *(row for row in rows if row is not None))
            kept[index] = kept[index]._replace(
                sessions=(*kept[index].sessions, *group.sessions), values=values
            )
    return sorted(kept, key=lambda one: -len(one.sessions))


def _masked_spans(text: str, mask: Callable[[str], str]) -> list[tuple[int, int]]:
    """Return where `mask` replaces parts of a text; the whole text if that cannot be told."""
    masked = mask(text)
    if masked == text:
        return []
    literals = _MASKED.split(masked)
    values = between(literals, text)
    if values is None:
        return [(0, len(text))]
    spans = []
    start = 0
    for literal, value in zip(literals, values, strict=False):
        start += len(literal)
        spans.append((start, start + len(value)))
        start += len(value)
    return spans


def _split(text: str, personal: Sequence[tuple[int, int]], known: Sequence[str]) -> list[str]:
    """Return a text in pieces, literal ones and values in turn, the first and the last literal."""
    looks = [span for found in _VALUE.finditer(text) if not _overlaps(span := found.span(), personal)]
    words = [(start, end) for start, end in looks if any(map(str.isdigit, text[start:end]))]
    spans = list(personal)
    for value in known:
        found = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", text)]
        # A part of a number or a date is not what a call has: the whole one is.
        spans += (one for one in found if one in words or not _overlaps(one, (*words, *personal)))
    spans += (one for one in looks if one in words or not _overlaps(one, spans))
    pieces: list[str] = []
    last = 0
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start < last:
            continue
        pieces += (text[last:start], text[start:end])
        last = end
    return [*pieces, text[last:]]


def _overlaps(span: tuple[int, int], others: Iterable[tuple[int, int]]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in others)


def _values_of(session: Session) -> list[str]:
    """Return the texts and numbers in a session's calls, as texts, the longest first."""
    found: dict[str, None] = {}
    for call in session.tool_interactions:
        for value in (*leaves(call.input_arguments), *leaves(call.output)):
            text = normal_text(value) if isinstance(value, str) else str(value)
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
