"""Idioms of earlier versions that names and messages do not use any more."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

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
ANY = re.compile("|".join(IDIOMS))
EACH = [re.compile(idiom) for idiom in IDIOMS]
FOLDERS = ("src/spangrade", "tracer", "converters", "evaluator", "datasets")


@cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax trees of the code, by file."""
    files = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if not path.is_symlink())
    return {str(path.relative_to(ROOT)): ast.parse(path.read_bytes()) for path in files}


def words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the names that a module gives and its texts, which messages are made of, in lower case."""
    described = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, described) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value.lower()
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name.lower()
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg.lower()
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id.lower()


def test_names_and_messages_are_without_them() -> None:
    found = [
        f"{file}:{line}: {word.strip()[:80]}; expected: {IDIOMS[idiom.re.pattern]}"
        for file, tree in modules().items()
        for line, word in words(tree)
        if (idiom := ANY.search(word)) and (idiom := next(filter(None, (one.search(word) for one in EACH))))
    ]
    assert found == []


def test_public_class_names_are_unique() -> None:
    files = defaultdict(list)
    for file, tree in modules().items():
        for node in tree.body if file.startswith(("tracer", "converters", "evaluator")) else ():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(file)
    assert {name: found for name, found in files.items() if len(found) > 1} == {}
