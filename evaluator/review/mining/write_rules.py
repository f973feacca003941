"""Append rules to a project's settings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spangrade.converters.datasets.call_rules import Rule
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
    given = rule.model_dump(mode="json", exclude_defaults=True)
    return "".join(f"{name} = {_value(value)}\n" for name, value in given.items())


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(name)} = {_value(one)}' for name, one in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else json.dumps(name, ensure_ascii=False)
