"""Append rules to a project's settings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spangrade.converters.datasets.call_rules import AtMost, Rule
from spangrade.converters.datasets.files import write_text
from spangrade.converters.datasets.golden import distinct_name
from spangrade.tracer.base.errors import InputError


def add_rules(file: Path, known: Iterable[Rule], rules: Iterable[Rule]) -> list[Rule]:
    """Add rules to a file of settings, and return those that it did not have: no known one asks for the same.

    A new file is made if there is none. Raises InputError for a file of another form than TOML.
    """
    known = list(known)
    asked, names = {rule.digest for rule in known}, {rule.name for rule in known}
    new = [rule for rule in rules if rule.digest not in asked]
    if not new:
        return []
    if file.suffix != ".toml":
        raise InputError(f"{file}: rules are written to a file of TOML")
    table = "tool.spangrade.rules" if file.name == "pyproject.toml" else "rules"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    for place, rule in enumerate(new):
        name = distinct_name(rule.name, names)
        names.add(name)
        new[place] = rule.model_copy(update={"name": name})
    tables = [f"[[{table}]]\n{rule_toml(rule)}" for rule in new]
    write_text(file, "\n".join([*([f"{text.rstrip()}\n"] if text.strip() else []), *tables]))
    return new


def rule_toml(rule: Rule) -> str:
    """Return the lines of a rule in TOML, without those that have their defaults."""
    lines = [
        f"{name} = {_value(value)}\n"
        for name in Rule.model_fields
        if (value := getattr(rule, name)) not in (None, False, [], ())
        or (name in ("violators", "false_alarms") and value is not None)
    ]
    return "".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, tuple) and all(isinstance(one, AtMost) for one in value):
        return f"{{{', '.join(f'{json.dumps(one.tool)} = {one.calls}' for one in value)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str | bool | int | float):
        return json.dumps(value, ensure_ascii=False)
    given = [(name, getattr(value, name)) for name in value.__slots__]
    return f"{{{', '.join(f'{name} = {_value(one)}' for name, one in given if one != ())}}}"
