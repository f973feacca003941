"""The changelog has a section for each version, in the form of Keep a Changelog."""

from __future__ import annotations

import re
from datetime import date

from command_line import run
from paths import ROOT

import spangrade

TEXT = (ROOT / "CHANGELOG.md").read_text()
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_each_version_has_a_dated_section_the_newest_first() -> None:
    unreleased, *released = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    assert unreleased == "[Unreleased]"
    found = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d\d-\d\d)", one) for one in released]
    assert None not in found, released
    versions = [(tuple(map(int, one.groups()[:3])), date.fromisoformat(one[4])) for one in found if one]
    assert versions == sorted(versions, reverse=True)
    current = tuple(map(int, re.findall(r"\d+", spangrade.__version__)))
    assert all(version <= current for version, _ in versions)


def test_what_changed_is_under_a_kind_and_is_a_sentence() -> None:
    assert set(re.findall(r"^### (.*)$", TEXT, re.MULTILINE)) <= KINDS
    _, _, unreleased = TEXT.partition("## [Unreleased]\n")
    entries = re.split(r"^- ", unreleased, flags=re.MULTILINE)[1:]
    odd = [one for one in entries if not re.search(r"[.)`]$", re.split(r"\n\n|\n#", one)[0].strip())]
    assert odd == []


def test_what_is_deprecated_works() -> None:
    _, _, deprecated = TEXT.partition("### Deprecated\n")
    names = re.findall(r"^- `(\w+)`: use `(\w+)`\.$", deprecated.partition("\n###")[0], re.MULTILINE)
    assert names
    for old, new in names:
        assert run(old, "--help").code == 0
        assert run(new, "--help").code == 0
