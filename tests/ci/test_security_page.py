"""SECURITY.md: each threat names tests that are there, and each dependency has its reason."""

from __future__ import annotations

import re

from dependencies import direct
from paths import ROOT

PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows(first: str) -> list[list[str]]:
    """Return the cells of the rows of the table whose first heading this is."""
    table = PAGE.partition(f"\n| {first} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_the_threats_are_numbered_and_each_names_tests_that_are_there() -> None:
    threats = rows("number")
    assert [number for number, *_ in threats] == [f"T{n}" for n in range(1, len(threats) + 1)]
    assert len(threats) > 10
    missing = []
    for number, _, _, tests in threats:
        named = TEST.findall(tests)
        assert named, number
        for path, name in named:
            source = (ROOT / path).read_text(encoding="utf-8")
            if not re.search(rf"^(async )?def {name}\(", source, re.MULTILINE):
                missing.append((number, path, name))
    assert missing == []


def test_each_dependency_is_listed_with_who_keeps_it_and_why() -> None:
    listed = {
        (name.strip("`"), extra) for name, extras, *_ in rows("dependency") for extra in extras.split(", ")
    }
    assert listed == {(name, extra or "always") for name, extra in direct()}
    assert all(all(cells) for cells in rows("dependency"))
