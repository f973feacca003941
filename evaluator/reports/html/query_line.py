"""The filters of the list of sessions in one line: `verdict:failed cost>0.05 agent:shop "where is it"`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from spangrade.evaluator.reports.html.filters import BOUNDS, NAMES, QUANTITIES
from spangrade.tracer.base.errors import InputError

# `failed-tool:` in the line is `failed_tool=` in an address; words without a name are the text to search for.
NAMED = tuple(
    name.replace("_", "-") for name in NAMES if name != "text" and name.partition("_")[0] not in BOUNDS
)
_SIGNS = {sign: bound for bound, sign in BOUNDS.items()}
_WORD = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*"?)+')
_NAMED = re.compile(rf"({'|'.join(map(re.escape, NAMED))}):(.+)", re.DOTALL)
_BOUND = re.compile(rf"({'|'.join(QUANTITIES)})(>=|<=|>|<)(.+)")
_SCORE = re.compile(r"[A-Za-z][\w.@-]*(?:>=|<=|>|<)-?\d+(?:\.\d+)?")  # of people or programs
_PLAIN = re.compile(r"[^\s\"\\]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"?')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def parse_line(line: str) -> dict[str, str]:
    """Return the filters of a line by name, as an address has them; what is not a filter is the text.

    Raises InputError where a filter is given twice.
    """
    filters: dict[str, str] = {}
    words = []
    for word in _WORD.findall(line):
        if bound := _BOUND.fullmatch(word):
            name, value = f"{_SIGNS[bound[2]]}_{bound[1]}", bound[3]
        elif named := _NAMED.fullmatch(word):
            name, value = named[1].replace("-", "_"), _unquoted(named[2])
        elif _SCORE.fullmatch(word):
            name, value = "score", word
        else:
            words.append(_unquoted(word))
            continue
        if name in filters:
            raise InputError(f"{word}: the line has this filter twice")
        filters[name] = value
    if words:
        filters["text"] = " ".join(words)
    return filters


def line_of(filters: Mapping[str, str]) -> str:
    """Return the line that `parse_line` reads as these filters."""
    return " ".join(word_of(name, value) for name, value in filters.items())


def word_of(name: str, value: str) -> str:
    """Return one filter as a word of the line."""
    bound, _, quantity = name.partition("_")
    if bound in BOUNDS:
        return f"{quantity}{BOUNDS[bound]}{value}"
    if name == "text":
        # Words stay as they were typed unless they would be read as something else.
        plain = '"' not in value and "\\" not in value and " ".join(value.split()) == value
        return value if plain and parse_line(value) == {"text": value} else _quoted(value)
    return f"{name.replace('_', '-')}:{value if _PLAIN.fullmatch(value) else _quoted(value)}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unquoted(word: str) -> str:
    """Return a word without its quotes; in quotes a backslash takes the next character as it is."""
    return _QUOTED.sub(lambda found: _ESCAPED.sub(r"\1", found[1]), word)
