"""YAML with the values of JSON: a date stays a text, `no` is not false, and no tag makes an object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import Any, NamedTuple

Event = Any  # of PyYAML, whose types have no attributes
_DEEPEST = 200
_MOST_VALUES = 1_000_000  # with every alias written out
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_TEXT = (None, "!", "tag:yaml.org,2002:str")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def parse_yaml(text: str) -> Any:
    """Return the value of a YAML text, as JSON has values; None of an empty one.

    Raises ValueError if it is not YAML, for a key that a map has twice or that is not a text, for a tag, and
    for aliases that would make more than a million values.
    """
    import yaml

    try:
        # Composing nodes recurses in C without a limit; reading events does not.
        events = yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        found = list(_documents(_Events(iter(events), {})))
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    if len(found) > 1:
        raise ValueError("expected one document, found several")
    return found[0].value if found else None


class _Read(NamedTuple):
    """A value, and the number of values in it."""

    value: Any
    size: int = 1


class _Events(NamedTuple):
    """The events of a text that are not read yet, and the values of its anchors."""

    rest: Iterator[Event]
    anchors: dict[str, _Read]


def _documents(events: _Events) -> Iterator[_Read]:
    import yaml

    for event in events.rest:
        if isinstance(event, yaml.DocumentStartEvent):
            yield _read(next(events.rest), events, 0)


def _read(event: Event, events: _Events, depth: int) -> _Read:
    """Return the value that begins with an event."""
    import yaml

    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in events.anchors:
            raise _refused(event, f"the alias *{event.anchor} stands for nothing before it")
        return events.anchors[event.anchor]
    tag = event.tag
    if isinstance(event, yaml.ScalarEvent):
        if tag not in _TEXT:
            raise _refused(event, f"the tag {tag} is not read")
        read = _Read(_scalar(event.value) if event.implicit[0] and tag is None else event.value)
    else:
        if tag not in (None, "!"):
            raise _refused(event, f"the tag {tag} is not read")
        if depth == _DEEPEST:
            raise _refused(event, "nested too deeply")
        is_list = isinstance(event, yaml.SequenceStartEvent)
        read = _list(events, depth + 1) if is_list else _map(events, depth + 1)
        if read.size > _MOST_VALUES:
            raise _refused(event, f"aliases that make more than {_MOST_VALUES:,} values")
    if event.anchor is not None:
        events.anchors[event.anchor] = read
    return read


def _list(events: _Events, depth: int) -> _Read:
    import yaml

    items = []
    while not isinstance(event := next(events.rest), yaml.SequenceEndEvent):
        items.append(_read(event, events, depth))
    return _Read([item.value for item in items], 1 + sum(item.size for item in items))


def _map(events: _Events, depth: int) -> _Read:
    """Return a map, with the maps that `<<` merges into it."""
    import yaml

    own: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    size = 1
    while not isinstance(key := next(events.rest), yaml.MappingEndEvent):
        name = _read(key, events, depth).value
        read = _read(next(events.rest), events, depth)
        size += read.size
        if name == "<<" and key.implicit[0]:
            for base in read.value if isinstance(read.value, list) else [read.value]:
                if not isinstance(base, dict):
                    raise _refused(key, "<< merges what is not a map")
                merged = {**base, **merged}
        elif not isinstance(name, str):
            raise _refused(key, "a key that is not a text: write it in quotation marks")
        elif name in own:
            raise _refused(key, f'the key "{name}" is in one map twice')
        else:
            own[name] = read.value
    return _Read({**merged, **own}, size)


def _scalar(text: str) -> Any:
    """Return the value of a scalar without quotation marks, as the core schema of YAML 1.2 has it."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and isfinite(number := float(text)):
        return number
    return text


def _refused(event: Event, what: str) -> ValueError:
    return ValueError(f"line {event.start_mark.line + 1}, column {event.start_mark.column + 1}: {what}")
