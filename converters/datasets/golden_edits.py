"""Edits of a golden question: a value at a path, in the question and in the text of its file.

The text keeps its layout, its order and the keys that spangrade does not know: only the edited values change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from spangrade.converters.datasets.golden import ReferenceToolInteraction
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.json_text import parse_exact

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_END = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s,\]}]+', re.DOTALL)
_SPACE = re.compile(r"\s*")
_INDENT = re.compile(r"[ \t]*")
_SHORT = {name: short for short, name in ReferenceToolInteraction.short_names.items()}
_LONGEST_LINE = 100  # characters of an inserted list or object in one line

Path = tuple[str | int, ...]


class _Layout(NamedTuple):
    """How a file is written: the indent of one more level, and the line ending, if any."""

    indent: str
    newline: str


class Edit(NamedTuple):
    """A value at a path in a golden question; with `insert` it becomes a new element of a list."""

    path: Path
    value: Any
    insert: bool = False


def edited(question: Mapping[str, Any], edit: Edit) -> dict[str, Any]:
    """Return a question as JSON with an edit made."""
    made: dict[str, Any] = _edited(question, _as_written(question, edit.path), edit)
    return made


def _edited(value: Any, path: Path, edit: Edit) -> Any:
    first, *rest = path
    if isinstance(first, int):
        items = list(value)
        if not rest and edit.insert:
            return [*items[:first], edit.value, *items[first:]]
        items[first] = edit.value if not rest else _edited(items[first], tuple(rest), edit)
        return items
    changed = edit.value if not rest else _edited(value.get(first) or {}, tuple(rest), edit)
    return {**value, first: changed}


def edited_text(text: str, edits: Mapping[str, Sequence[Edit]], where: str) -> str:
    """Return the text of a golden file with edits of its questions, by their ids.

    Raises InputError if the text has a form in which a value cannot be found.
    """
    first = _skip(text, 0)
    if not text.startswith("[", first):
        root = _members(text, _start(text))
        if "golden_questions" not in root:
            raise InputError(f"{where}: no list golden_questions to edit")
        first = root["golden_questions"][0]
    layout = _layout(text)
    parts, end = [], 0
    for start, stop in _items(text, first):
        part = text[start:stop]
        for edit in edits.get(parse_exact(part)["id"], ()):
            part = _with_edit(part, 0, _as_written(parse_exact(part), edit.path), edit, layout)
        parts += [text[end:start], part]
        end = stop
    return "".join([*parts, text[end:]])


def _as_written(question: Any, path: Path) -> Path:
    """Return the path of an edit as a question has it: references may be beside its id, names short.

    An edit has the path in a question that is dumped.
    """
    if path[0] == "reference_data" and len(path) > 1 and path[1] in question:
        path = path[1:]
    made: list[str | int] = []
    value = question
    for part in path:
        short = _SHORT.get(part) if made and isinstance(made[-1], int) and isinstance(part, str) else None
        made.append(short if short is not None and isinstance(value, dict) and short in value else part)
        try:
            value = value[made[-1]]
        except (KeyError, IndexError, TypeError):
            value = None
    return tuple(made)


def _with_edit(text: str, start: int, path: Path, edit: Edit, layout: _Layout) -> str:
    """Return a text in which the value that begins at `start` has an edit made at a path in it."""
    first, *rest = path
    if isinstance(first, str):
        members = _members(text, start)
        if first not in members:
            value = edit.value if not rest else _nested(tuple(rest), edit.value)
            key = json.dumps(first, ensure_ascii=False)
            return _inserted(text, start, list(members.values()), len(members), f"{key}: ", value, layout)
        spans = members[first]
    else:
        items = _items(text, start)
        if not rest and edit.insert:
            return _inserted(text, start, items, first, "", edit.value, layout)
        spans = items[first]
    if rest and text[spans[0]] in "{[":
        return _with_edit(text, spans[0], tuple(rest), edit, layout)
    value = edit.value if not rest else _nested(tuple(rest), edit.value)
    return text[: spans[0]] + _written(value, _indent_at(text, spans[0]), layout) + text[spans[1] :]


def _nested(path: Path, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value} if isinstance(key, str) else [value]
    return value


def _inserted(
    text: str,
    start: int,
    spans: Sequence[tuple[int, int]],
    index: int,
    key: str,
    value: Any,
    layout: _Layout,
) -> str:
    """Return a text with a member or element more, written as its neighbours are."""
    first = _skip(text, start + 1)
    made = key + _written(value, _indent_at(text, first if spans else start), layout)
    if not spans:
        return text[: start + 1] + made + text[first:]
    in_lines = "\n" in text[start + 1 : first]
    lead = layout.newline + _indent_at(text, first) if in_lines else " "
    if index:
        after = spans[min(index, len(spans)) - 1][1]
        return f"{text[:after]},{lead}{made}{text[after:]}"
    return f"{text[:first]}{made},{lead}{text[first:]}"


def _written(value: Any, indent: str, layout: _Layout) -> str:
    """Return a value as JSON: in one line or, if that is too long, a member or element per line."""
    text = json.dumps(value, ensure_ascii=False)
    fits = len(text) + len(indent) <= _LONGEST_LINE or not layout.newline
    if fits or not value or not isinstance(value, dict | list):
        return text
    deeper = indent + layout.indent
    if isinstance(value, list):
        lines = [_written(item, deeper, layout) for item in value]
        before, after = "[", "]"
    else:
        lines = [
            f"{json.dumps(key, ensure_ascii=False)}: {_written(item, deeper, layout)}"
            for key, item in value.items()
        ]
        before, after = "{", "}"
    start = layout.newline + deeper
    return f"{before}{start}{f',{start}'.join(lines)}{layout.newline}{indent}{after}"


def _layout(text: str) -> _Layout:
    """Return the layout of a file: the indent of the first member of its object, two spaces without one."""
    indent = _indent_at(text, _skip(text, _start(text) + 1))
    newline = "\r\n" if "\r\n" in text else "\n" if "\n" in text.strip() else ""
    return _Layout(indent or "  ", newline)


def _indent_at(text: str, place: int) -> str:
    """Return the white space with which the line of a place begins."""
    line = text.rfind("\n", 0, place) + 1
    indent = _INDENT.match(text, line, place)
    return "" if indent is None else indent[0]


def _start(text: str) -> int:
    start = text.find("{")
    if start < 0:
        raise InputError("a golden file is an object, found none")
    return start


def _members(text: str, start: int) -> dict[str, tuple[int, int]]:
    """Return where the value of each member of the object that begins at `start` begins and ends."""
    found: dict[str, tuple[int, int]] = {}
    at = _skip(text, start + 1)
    while text[at] != "}":
        stop = _value_end(text, at)
        name = json.loads(text[at:stop])
        at = _skip(text, _skip(text, stop) + 1)
        stop = _value_end(text, at)
        found[name] = (at, stop)
        at = _next(text, stop)
    return found


def _items(text: str, start: int) -> list[tuple[int, int]]:
    """Return where each element of the list that begins at `start` begins and ends."""
    found = []
    at = _skip(text, start + 1)
    while text[at] != "]":
        stop = _value_end(text, at)
        found.append((at, stop))
        at = _next(text, stop)
    return found


def _next(text: str, at: int) -> int:
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def _value_end(text: str, start: int) -> int:
    """Return where the JSON value that begins at `start` ends."""
    if text[start] not in "{[":
        end = _END.match(text, start)
        return start if end is None else end.end()
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
            if not depth:
                return token.end()
    return len(text)


def text_of(edits: Iterable[Edit]) -> list[str]:
    """Return edits for people: `reference_data.max_cost_usd: 0.02`."""
    lines = []
    for edit in edits:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in edit.path)
        lines.append(f"{path.lstrip('.')}: {json.dumps(edit.value, ensure_ascii=False)}")
    return lines
