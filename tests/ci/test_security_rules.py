"""Ruff's security rules apply to what is installed; each exception gives its reason."""

from __future__ import annotations

import re
import tomllib

from paths import ROOT

INSTALLED = ("tracer", "converters", "evaluator", "datasets", "src")


def test_the_security_rules_are_on_for_everything_that_is_installed() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert "S" in lint["select"]
    assert not [rule for rule in lint["ignore"] if rule.startswith("S") and not rule.startswith("SIM")]
    excepted = {
        pattern: [
            rule for rule in rules if rule == "S" or rule[:2] in {"S1", "S2", "S3", "S4", "S5", "S6", "S7"}
        ]
        for pattern, rules in lint["per-file-ignores"].items()
        if any(one in pattern for one in INSTALLED)
    }
    assert not any(excepted.values()), excepted


def test_every_exception_to_a_security_rule_gives_its_reason() -> None:
    without = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in INSTALLED
        for path in (ROOT / folder).rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"# noqa: S\d+\b(?! \(\w.+\))", line)
    ]
    assert without == []
