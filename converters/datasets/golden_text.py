"""Golden questions as people write them: JSON, JSON Lines, YAML or CSV, told apart by their content.

YAML has the values of JSON: a date stays a text, `no` is not false, and no tag makes an object.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from json import JSONDecodeError
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from spangrade.converters.datasets.files import read_text
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.json_text import DoubledKeyError, parse_exact, parse_written, refusal

_NAME = re.compile(r"\s*[A-Za-z_][\w. -]*\s*")
_COLUMNS = {"id", "user_inputs"}  # a first line with a cell of these is the header of a CSV
_TYPES = {  # of values, as JSON Schemas call them
    bool: {"boolean"},
    int: {"integer", "number"},
    float: {"number"},
    str: {"string"},
    list: {"array"},
    dict: {"object"},
    type(None): {"null"},
}
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


class Form(NamedTuple):
    """A form of golden files: its name, an example of it, and the place of a question by its index."""

    name: str
    example: tuple[str, str, str]
    place: Callable[[int], str]


class Written(NamedTuple):
    """The content of a golden file, and its form."""

    content: Any
    form: Form


OBJECT = Form(
    "JSON",
    (
        '{"golden_questions": [',
        '  {"id": "a1", "user_inputs": "Where is order A1?", "required_texts": ["shipped"]}',
        "]}",
    ),
    "golden_questions[{}]".format,
)
_LIST = Form("JSON", ("[", OBJECT.example[1], "]"), "[{}]".format)
_YAML = ("- id: a1", "  user_inputs: Where is order A1?", "  required_texts: [shipped]")
_LINES = (
    '{"id": "a1", "user_inputs": "Where is order A1?", "required_texts": ["shipped"]}',
    '{"id": "a2", "user_inputs": ["Hi", "Cancel A2"], "reference_tool_interactions": [{"name": "cancel"}]}',
    '{"id": "a3", "user_inputs": "Refund A3", "forbidden_tools": ["refund"]}',
)
_CSV = (
    "id,user_inputs,required_texts,reference_response",
    "a1,Where is order A1?,shipped,",
    'a2,"[""Hi"", ""Cancel A2""]",cancelled,Order A2 is cancelled.',
)


def form_of(content: Any) -> Form:
    """Return the form of golden questions in memory, or in a JSON file."""
    return _LIST if isinstance(content, list) else OBJECT


def read_written(path: Path, fields: Callable[[], Mapping[str, Any]]) -> Written:
    """Return the content of a golden file; cells of a CSV get the types of `fields` in a JSON Schema.

    Raises InputError if it cannot be read, or is none of the forms.
    """
    return parse_golden(path, read_text(path), fields)


def parse_golden(path: Path, text: str, fields: Callable[[], Mapping[str, Any]]) -> Written:
    """Return the content of a golden file by its text, as `read_written` does."""
    if text.lstrip()[:1] in ("{", "["):
        return _json(path, text)
    if is_golden_csv(text):
        return _csv(path, text, fields())
    try:
        content = parse_yaml(text)
    except ValueError as error:
        raise InputError(f"{path}: not YAML: {error}") from error
    place = "[{}]" if isinstance(content, list) else "golden_questions[{}]"
    return Written(content, Form("YAML", _YAML, place.format))


def is_golden_csv(text: str) -> bool:
    """Return whether a text is a CSV of golden questions: its first line names a field of them."""
    header = _header(text)
    return not _COLUMNS.isdisjoint(header) or len(header) > 1


def _header(text: str) -> list[str]:
    """Return the names of a CSV's columns; none if the first line is something else."""
    line = text.lstrip("\ufeff\r\n").partition("\n")[0]
    cells = [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter_of(text)), ())]
    return cells if cells and all(_NAME.fullmatch(cell) for cell in cells) else []


def delimiter_of(text: str) -> str:
    """Return the delimiter of a CSV: the one that is most frequent in the first line."""
    return max(",;\t", key=text.lstrip("\ufeff\r\n").partition("\n")[0].count)


def _json(path: Path, text: str) -> Written:
    """Return JSON or, if its first line is a document by itself and others follow, JSON Lines."""
    try:
        content = parse_written(text)
        return Written(content, form_of(content))
    except JSONDecodeError as error:
        first, _, others = text.lstrip().partition("\n")
        if not others.strip() or not _is_object(first):
            raise InputError(f"{path}: {refusal(error)}") from error
    questions, numbers = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                questions.append(parse_written(line))
            except JSONDecodeError as error:
                raise InputError(f"{path}: {refusal(error, number)}") from error
            numbers.append(number)
    return Written(questions, Form("JSON Lines", _LINES, lambda index: f"line {numbers[index]}"))


def _is_object(line: str) -> bool:
    try:
        return isinstance(parse_exact(line), dict)
    except JSONDecodeError:
        return False


def _csv(path: Path, text: str, fields: Mapping[str, Any]) -> Written:
    csv.field_size_limit(2**31 - 1)
    reader = csv.DictReader(io.StringIO(text.lstrip("\r\n"), newline=""), delimiter=delimiter_of(text))
    reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
    form = Form("CSV", _CSV, lambda index: f"row {index + 1}")
    doubled = [name for name in reader.fieldnames if reader.fieldnames.count(name) > 1]
    if doubled:
        raise InputError(f'{path}: the column "{doubled[0]}" is there twice')
    try:
        rows = [
            dict(_cells(cells, fields, f"{path}: {form.place(index)}")) for index, cells in enumerate(reader)
        ]
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV: line {reader.line_num}: {error}") from error
    return Written(rows, form)


def _cells(cells: Mapping[str, Any], fields: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a row that are not blank, with their values."""
    for name, cell in cells.items():
        if name is None:
            raise InputError(f"{where}: more cells than the header has columns")
        if cell and cell.strip():
            yield name, _value(cell, _types(fields.get(name, {"type": "string"})), f"{where}: {name}")


def _types(field: Mapping[str, Any]) -> set[str]:
    """Return the types of JSON that a field may have."""
    options: Iterable[Mapping[str, Any]] = field.get("anyOf", field.get("oneOf", ()))
    return set().union(*map(_types, options)) if options else {field.get("type", "object")}


def _value(cell: str, types: set[str], where: str) -> Any:
    """Return the value of a cell: JSON, or else a text, also as the only one of a list of texts."""
    is_text = not types.isdisjoint(("string", "array"))
    if "string" not in types or cell.lstrip()[:1] in ("[", "{"):
        try:
            value = parse_written(cell)
            if not is_text or types & _TYPES[type(value)]:
                return value
        except DoubledKeyError as error:
            raise InputError(f"{where}: {refusal(error)}") from error
        except JSONDecodeError as error:
            if not is_text:
                raise InputError(f"{where}: expected JSON, found {json.dumps(cell[:40])}") from error
    return cell if "string" in types else [cell]


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
