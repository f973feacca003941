"""A golden file to edit: its questions as they are written, and its text with edits, in the same form.

JSON and JSON Lines keep their layout. In YAML and CSV a field that changes is written as JSON, which both
have; other lines of YAML keep their layout and comments, and cells of a CSV their values.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from spangrade.converters.datasets.files import read_text
from spangrade.converters.datasets.golden import fields_of_questions, golden_of
from spangrade.converters.datasets.golden_edits import Edit, edited, edited_text
from spangrade.converters.datasets.golden_text import OBJECT, delimiter_of, parse_golden
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.json_text import parse_exact

Question = dict[str, Any]


class GoldenFile(NamedTuple):
    """A golden file: its path, its text, the name of its form, and its questions as they are written."""

    path: Path
    text: str
    form: str
    questions: Sequence[Question]

    def with_edits(self, edits: Mapping[str, Sequence[Edit]]) -> str:
        """Return the text with edits of questions, by their ids.

        Raises InputError if the file has a layout in which the edits mean something else.
        """
        if not edits:
            return self.text
        inside = {
            one["id"]: [_placed(edit, one, self.form) for edit in edits.get(one["id"], ())]
            for one in self.questions
        }
        expected = [_with_all(one, inside[one["id"]]) for one in self.questions]
        golden_of(expected, str(self.path))
        if self.form == OBJECT.name:
            changed = _in_json(self, inside)
        elif self.form == "JSON Lines":
            changed = "\n".join(_in_line(line, inside, str(self.path)) for line in self.text.split("\n"))
        else:
            fields = [_changed(old, new) for old, new in zip(self.questions, expected, strict=True)]
            changed = _in_yaml(self.text, fields) if self.form == "YAML" else _in_csv(self.text, fields)
        try:
            again = golden_file(self.path, changed)
        except InputError:
            again = None
        if again is None or again.questions != expected:
            raise InputError(f"{self.path}: its layout cannot be edited; write it in the usual way first")
        return changed


def golden_file(path: Path, text: str | None = None) -> GoldenFile | None:
    """Return a golden file, by its text if that is given; None for a file of another tool.

    Raises InputError if the file cannot be read.
    """
    text = read_text(path) if text is None else text
    content, form = parse_golden(path, text, fields_of_questions)
    if form.name == OBJECT.name:  # numbers of more digits than a float has stay as they are
        content = parse_exact(text)
    if isinstance(content, dict):
        content = content.get("golden_questions", [content])
    if not isinstance(content, list) or not all(isinstance(one, dict) and "id" in one for one in content):
        return None
    return GoldenFile(path, text, form.name, content)


def _placed(edit: Edit, question: Question, form: str) -> Edit:
    """Return an edit with its path where a question has its references: beside its id, or under a key."""
    first, *rest = edit.path
    if form == OBJECT.name or first != "reference_data" or not rest or first in question:
        return edit
    return edit._replace(path=tuple(rest))


def _with_all(question: Question, edits: Sequence[Edit]) -> Question:
    for edit in edits:
        question = edited(question, edit)
    return question


def _changed(old: Question, new: Question) -> Question:
    return {name: value for name, value in new.items() if name not in old or old[name] != value}


def _in_json(file: GoldenFile, edits: Mapping[str, Sequence[Edit]]) -> str:
    document = parse_exact(file.text)
    if isinstance(document, list) or "golden_questions" in document:
        return edited_text(file.text, edits, str(file.path))
    return edited_text(f"[{file.text}]", edits, str(file.path))[1:-1]


def _in_line(line: str, edits: Mapping[str, Sequence[Edit]], where: str) -> str:
    return edited_text(f"[{line}]", edits, where)[1:-1] if line.strip() else line


def _in_csv(text: str, fields: Sequence[Question]) -> str:
    """Return a CSV whose cells have new values, in columns that it has or gets."""
    delimiter = delimiter_of(text)
    reader = csv.DictReader(io.StringIO(text.lstrip("\r\n"), newline=""), delimiter=delimiter)
    rows = list(reader)
    names = dict.fromkeys([name.strip() for name in reader.fieldnames or ()])
    out = io.StringIO()
    new = {name: None for one in fields for name in one}
    end = "\r\n" if "\r\n" in text else "\n"
    writer = csv.DictWriter(out, [*(names | new)], restval="", delimiter=delimiter, lineterminator=end)
    writer.writeheader()
    for row, changed in zip(rows, fields, strict=True):
        cells = {name.strip(): cell for name, cell in row.items()}
        writer.writerow(cells | {name: _cell(value) for name, value in changed.items()})
    return out.getvalue()


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _in_yaml(text: str, fields: Sequence[Question]) -> str:
    """Return a YAML text in which fields of its questions have new values, or are added at their end."""
    import yaml

    root: Any = yaml.compose(text, yaml.SafeLoader)
    if isinstance(root, yaml.MappingNode):
        members = {key.value: value for key, value in root.value}
        root = members.get("golden_questions")
        nodes = [yaml.compose(text, yaml.SafeLoader)] if root is None else root.value
    else:
        nodes = root.value
    changes = [
        change for node, new in zip(nodes, fields, strict=True) for change in _changes(text, node, new)
    ]
    # From the end; of two at one place that of an empty value, which comes first there, is made last.
    for start, stop, written in reversed(sorted(changes, key=itemgetter(0))):  # noqa: C413 (equal ones, too)
        text = text[:start] + written + text[stop:]
    return text


def _changes(text: str, node: Any, fields: Question) -> list[tuple[int, int, str]]:
    """Return edits (start, end, text) of a YAML text, so that a map in it has new fields."""
    members = {key.value: (key, value) for key, value in node.value}
    found, added = [], []
    for name, value in fields.items():
        if name not in members:
            added.append(f"{name}: {_json(value)}")
            continue
        key, old = members[name]
        start, stop = old.start_mark.index, _end(text, old)
        if stop > start:
            found.append((start, stop, _json(value)))
        else:  # nothing is written there, which is null
            found.append((key.end_mark.index + 1, key.end_mark.index + 1, f" {_json(value)}"))
    if added and node.flow_style:
        last = node.end_mark.index - 1
        found.append((last, last, "".join(f", {one}" for one in added)))
    elif added:
        newline = "\r\n" if "\r\n" in text else "\n"
        lead = newline + " " * node.value[0][0].start_mark.column
        end = text.find(newline, _end(text, node))
        end = len(text) if end < 0 else end
        found.append((end, end, "".join(lead + one for one in added)))
    return found


def _end(text: str, node: Any) -> int:
    """Return where the value of a node ends, without the space and the comments behind it."""
    if not isinstance(node.value, list) or node.flow_style or not node.value:
        start: int = node.start_mark.index
        return start + len(text[start : node.end_mark.index].rstrip())
    last = node.value[-1]
    if not isinstance(last, tuple):
        return _end(text, last)
    key, value = last
    after: int = key.end_mark.index + 1
    return max(_end(text, value), after)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
