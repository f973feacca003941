"""The mutants of a module, by the operators of cosmic-ray, and a seeded sample of them."""

from __future__ import annotations

import difflib
import hashlib
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import parso
from cosmic_ray.ast import ast_nodes
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

# What only a type checker reads.
TYPE_ONLY = ("TYPE_CHECKING", "@overload", "@override", "@final")
NEVER_MUTATED = ("name", "string", "newline", "endmarker", "fstring_string")


class Place(NamedTuple):
    """Where one operator of cosmic-ray can change a file."""

    path: str  # from the top of the checkout
    operator: str
    occurrence: int
    line: int
    statement: tuple[int, int]  # its first and last line
    at_import: bool  # outside functions
    identity: str  # stays the same while its line does


class Mutant(NamedTuple):
    """A file with one change."""

    place: Place
    source: str
    before: str  # the lines that the change replaces, without indentation
    after: str

    @property
    def diff(self) -> str:
        """The change as text."""
        changed = [f"-{line}" for line in self.before.splitlines()]
        changed += [f"+{line}" for line in self.after.splitlines()]
        return "\n".join([f"{self.place.path}:{self.place.line}", *changed])


def _is_type(node: Any) -> bool:
    """Return whether the node is part of an annotation or a bare `*` or `/` between parameters."""
    if node.parent is not None and node.parent.type == "parameters":
        return True
    child = node
    while (parent := child.parent) is not None:
        siblings = parent.children
        if parent.type in ("tfpdef", "annassign") and child is not siblings[0]:
            return parent.type == "tfpdef" or child is siblings[1]
        if parent.type == "funcdef" and siblings[3] == "->" and child is siblings[4]:
            return True
        child = parent
    return False


def _statement(node: Any) -> tuple[int, int]:
    """Return the first and last line of the statement around a node; of `if` and the like, of the header."""
    child = node
    while child.parent is not None and child.parent.type not in ("suite", "file_input"):
        child = child.parent
        if child.type == "decorator":
            break
    last = child.end_pos[0] - (child.end_pos[1] == 0)  # the end of a line is the start of the next
    bodies = [part for part in getattr(child, "children", ()) if part.type == "suite"]
    if bodies and node.start_pos < bodies[0].start_pos:
        last = bodies[0].start_pos[0]
    return child.start_pos[0], last


def _in_function(node: Any) -> bool:
    """Return whether the node runs when a function does: it is in its body."""
    child = node
    while (parent := child.parent) is not None:
        if parent.type in ("funcdef", "lambdef") and child is parent.children[-1]:
            return True
        child = parent
    return False


def places(root: Path, path: str) -> Iterator[Place]:
    """Yield every place of a file, always in the same order."""
    source = (root / path).read_text()
    lines = source.splitlines()
    nodes = [node for node in ast_nodes(parso.parse(source)) if node.type not in NEVER_MUTATED]
    seen: Counter[str] = Counter()
    for name in operator_names():
        kind = get_operator(name)
        if kind.arguments():
            continue  # replaces a variable that is named to it
        operator = kind()
        found = [(node, start) for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, (node, (line, column)) in enumerate(found):
            text = lines[line - 1]
            if _is_type(node) or any(word in text for word in TYPE_ONLY):
                continue
            key = f"{path} {name} {text.strip()} {column - len(text) + len(text.lstrip())}"
            seen[key] += 1
            yield Place(
                path, name, occurrence, line, _statement(node), not _in_function(node), f"{key} {seen[key]}"
            )


def mutate(root: Path, place: Place) -> Mutant | None:
    """Apply a place's operator; return None if Python cannot compile the outcome."""
    original = (root / place.path).read_text()
    source = mutate_code(original, get_operator(place.operator)(), place.occurrence)
    try:
        with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
            compile(source, place.path, "exec", dont_inherit=True)
    except SyntaxError:
        return None
    changes = [
        line for line in difflib.ndiff(original.splitlines(), source.splitlines()) if line[:2] in ("- ", "+ ")
    ]
    before, after = (
        "\n".join(line[2:].strip() for line in changes if line[0] == sign and line[2:].strip())
        for sign in ("-", "+")
    )
    return Mutant(place, source, before, after)


def sample(root: Path, paths: Sequence[str], size: int, seed: int) -> tuple[list[Mutant], int]:
    """Return a sample of the mutants of the files, and how many places there are.

    A mutant is in it by a hash of the seed and of its line: a change of another line leaves it in the sample.
    """
    every = [place for path in paths for place in places(root, path)]
    every.sort(key=lambda place: hashlib.sha256(f"{seed} {place.identity}".encode()).digest())
    mutants: list[Mutant] = []
    for place in every:
        if len(mutants) == size:
            break
        if mutant := mutate(root, place):
            mutants.append(mutant)
    return mutants, len(every)


def equivalents(root: Path, file: Path) -> dict[tuple[str, str, str], str]:
    """Return the reasons of `equivalent.toml` by file, line before, line after.

    Raise ValueError if a file no longer has the line.
    """
    reasons = {}
    for entry in tomllib.loads(file.read_text()).get("mutant", []):
        path, before, after = entry["file"], entry["before"], entry["after"]
        lines = [line.strip() for line in (root / path).read_text().splitlines()]
        if any(line not in lines for line in before.splitlines()):
            raise ValueError(f"{file.name}: {path} has no line {before!r}: remove the entry")
        reasons[path, before, after] = entry["reason"]
    return reasons
