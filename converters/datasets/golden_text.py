"""Golden questions as people write them: JSON, JSON Lines, YAML or CSV, told apart by their content."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from json import JSONDecodeError
from pathlib import Path
from typing import Any, NamedTuple

from spangrade.converters.datasets.files import read_text
from spangrade.converters.datasets.yaml_text import parse_yaml
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
