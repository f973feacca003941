"""Idioms of earlier versions that the code and its documentation do not use any more."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from paths import ROOT

IDIOMS = {  # in lower case
    r"[;:,(] right (is|are|would be)\b": "expected …",
    r"\b(un)?mend(s|ed|able|ing)?\b": "fix, advice",
    r"\bis no (agent|dialect|hand-off|list|number|object|text|tool)\b": "is not a …",
    r"\btak(e|es|en|ing) back [$`a-z]": "unset",
    r"\btold to come again\b": "rejected with 503",
    r"\bcame of it\b": "the result",
    r"\bfinds it locked\b": "if it is locked",
    r"\b(a stranger's|people's own)\b": "third-party, your own",
    r"\bspelt\b": "written, named",
    r"(?<=\w )(µs|ms|bytes|tokens|dollars) a (span|session)\b": "per span, per session",
    r"\b(comes?|came) to\b": "the result of",
    r"\bso many\b": "the number of",
    r"\b(hardly any|seldom)\b": "few, rarely",
    r"hand_off": "handoff in names",
    r"\b(take_in|hand_over|chore|doomed)\b": "import_files, seal, maintenance_task, to_delete",
}


def written_files() -> list[Path]:
    folders = ("src/spangrade", "tracer", "converters", "evaluator", "datasets", "docs", "tests")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path != Path(__file__)]
    return [*ROOT.glob("*.md"), *(path for path in files if path.suffix in {".py", ".md", ".sql"})]


def test_the_glossary_holds() -> None:
    found = []
    for path in written_files():
        text = path.read_text(encoding="utf-8").lower()
        for idiom, expected in IDIOMS.items():
            if re.search(idiom, text):
                found += [
                    f"{path.relative_to(ROOT)}:{number}: {line.strip()}; expected: {expected}"
                    for number, line in enumerate(text.splitlines(), 1)
                    if re.search(idiom, line)
                ]
    assert found == []


def test_public_class_names_are_unique() -> None:
    files = defaultdict(list)
    for folder in ("tracer", "converters", "evaluator"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    files[node.name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in files.items() if len(found) > 1} == {}
