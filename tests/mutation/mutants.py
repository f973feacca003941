"""The mutants of a file, each one mistake that people make, and a seeded sample of them by room."""

from __future__ import annotations

import ast
import hashlib
import re
import tomllib
import warnings
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

# What only a type checker reads.
TYPE_ONLY = ("TYPE_CHECKING", "@overload", "@override", "@final")


class Place(NamedTuple):
    """Where one mistake can be made in a file."""

    path: str  # from the top of the checkout
    kind: str
    start: int  # of the bytes that are replaced
    end: int
    text: str  # what replaces them
    line: int
    statement: tuple[int, int]  # its first and last line
    at_import: bool  # outside functions


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
        return "\n".join([f"{self.place.path}:{self.place.line} {self.place.kind}", *changed])


class Declared(NamedTuple):
    """What the source declares, by which a mistake is plausible."""

    neighbours: dict[str, str]  # a field of a record, and the next of the same type there
    annotations: dict[str, set[str]]  # of fields, and of what functions return


Change = tuple[str, ast.AST, str]  # the kind of mistake, what it replaces, and by what

FALSY = re.compile(r"\b(int|float|str|bool|Any|dict|list|tuple|set|frozenset|object|Mapping|Sequence)\b")
FALSE_FRIENDS = {
    "max": "min",
    "min": "max",
    "any": "all",
    "all": "any",
    "partition": "rpartition",
    "rpartition": "partition",
    "startswith": "endswith",
    "endswith": "startswith",
}
UNITS_OF_TIME = {"days": "hours", "hours": "minutes", "minutes": "seconds", "seconds": "milliseconds"}
NOT_SWAPPED = {
    "isinstance",
    "issubclass",
    "getattr",
    "setattr",
    "hasattr",
    "cast",
    "field",
    "super",
    "TypeVar",
}
OF_MODULES = {"search", "match", "fullmatch"}  # what they return is never false
# They take what has another type, 0 among them, as they take None.
READERS = {"isinstance", "bool", "text", "values.text", "json_object", "objects", "_object", "_objects"}
COMPARED = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")}
UNITS = {60, 100, 1000, 1024, 3600, 86400, 10**6, 10**9, 1e-3, 1e-6, 1e-9}
UNIT_NAME = re.compile(r"(_NS|_MS|_US|_PER_\w+|SECOND_NS|MB|KB|DAY_S|HOUR_S)$")
# Of SQL, in its files and in strings of Python; of templates, between braces alone.
IN_SQL: tuple[tuple[str, str, str], ...] = (
    (
        "filter",
        r"(?im)^(\s*)(WHERE|AND|HAVING)\s(?!.*\bBETWEEN\b)[^\n()]*(\([^\n()]*\)[^\n()]*)*$",
        "sql-filter",
    ),
    ("filter", r"(?i)\bFILTER \(WHERE [^()]*\)", ""),
    ("first or last", r"\bDESC\b(?! NULLS)", "ASC"),
    ("first or last", r"\bmax\(", "min("),
    ("first or last", r"\bmin\(", "max("),
    ("first or last", r"\barg_max\(", "arg_min("),
    ("boundary", r"(?<![<>=!-])<(?![<>=])", "<="),
    ("boundary", r"(?<![<>=!-])<=(?![<>])", "<"),
    ("boundary", r"(?<![<>=!-])>(?![<>=])", ">="),
    ("boundary", r"(?<![<>=!-])>=(?![<>])", ">"),
    ("unknown", r"\bLEFT JOIN\b", "JOIN"),
    ("unknown", r"\bIS NOT DISTINCT FROM\b", "="),
    ("unknown", r"\bIS DISTINCT FROM\b", "!="),
    ("unknown", r"\bcount\((?!\*|DISTINCT)\w[\w.]*\)", "count(*)"),
    ("unit", r"\b1e9\b|\b1000000000\b", "1e6"),
)
IN_TEMPLATE: tuple[tuple[str, str, str], ...] = (
    ("unknown", r" is not none\b", ""),
    ("unknown", r" is none\b", " == 0"),
    ("boundary", r"(?<![-<>=%])>(?![=>])", ">="),
    ("boundary", r" < ", " <= "),
    ("boundary", r"\bloop\.index\b(?!0)", "loop.index0"),
    ("filter", r" and [\w.]+(?= %})", ""),
    ("first or last", r"\bloop\.first\b", "loop.last"),
    ("first or last", r"\bloop\.last\b", "loop.first"),
    ("first or last", r"\[0\]", "[-1]"),
    ("filter", r"(?<=\{% if )not ", ""),
)  # fmt: skip


@cache
def declared(root: Path) -> Declared:
    """Return the fields of all records of the source, and the annotations of fields and functions."""
    neighbours: dict[str, str] = {}
    annotations: dict[str, set[str]] = defaultdict(set)
    for folder in ("tracer", "converters", "evaluator"):
        for file in sorted((root / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns:
                    annotations[node.name].add(ast.unparse(node.returns))
                if isinstance(node, ast.ClassDef):
                    fields = [
                        (part.target.id, _plain(part.annotation))
                        for part in node.body
                        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
                    ]
                    for name, type_ in fields:
                        annotations[name].add(type_)
                        same = [other for other, its in fields if its == type_]
                        if len(same) > 1:
                            neighbours.setdefault(name, same[(same.index(name) + 1) % len(same)])
    return Declared(neighbours, dict(annotations))


def _plain(annotation: ast.expr) -> str:
    """Return the type of an annotation, without what `Annotated` adds."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        assert isinstance(annotation.slice, ast.Tuple)
        annotation = annotation.slice.elts[0]
    return ast.unparse(annotation)


def _parent(node: ast.AST) -> Any:
    """Return the node around one, as `_in_python` has set it."""
    return getattr(node, "parent", None)


def _empty(type_: str) -> str | None:
    """Return what hides that a value of the type is unknown, which None says; None where it does not."""
    if "None" in type_:
        for name, value in (("bool", "False"), ("int", "0"), ("float", "0.0"), ("str", '""')):
            if re.match(rf"{name}\b(?!\[)", type_.replace("None | ", "")):
                return value
    return None


def _records(node: ast.AST, known: Declared) -> Iterator[Change]:
    """Yield a neighbouring field or key in the place of the one."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        called = getattr(_parent(node), "func", None) is node
        if node.attr in known.neighbours and not called:
            yield "neighbour", node, f"{ast.unparse(node.value)}.{known.neighbours[node.attr]}"
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        if (key := node.slice.value) in known.neighbours:
            yield "neighbour", node.slice, repr(known.neighbours[key])
        if key == 0:
            yield "first or last", node.slice, "-1"
    if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "-1":
        yield "first or last", node.slice, "0"


def _unknown(node: ast.AST, known: Declared) -> Iterator[Change]:
    """Yield what takes zero, false or the empty for unknown, or unknown for one of them."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and ast.unparse(node.comparators[0]) == "None":
        left = node.left
        name = left.func if isinstance(left, ast.Call) else left
        last = name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
        own = _declared_here(node, left.id) if isinstance(left, ast.Name) else None
        types = {own} if own else () if last in OF_MODULES else known.annotations.get(last, ())
        if any("None" in type_ and FALSY.search(type_) for type_ in types):
            test = ast.unparse(left)
            yield "unknown", node, f"not {test}" if isinstance(node.ops[0], ast.Is) else f"bool({test})"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        tested = isinstance(_parent(node), ast.BoolOp | ast.UnaryOp | ast.If | ast.IfExp | ast.comprehension)
        typed = isinstance(_parent(node), ast.Call) and ast.unparse(_parent(node).func) in READERS
        if len(node.args) == 1 and not node.keywords and not tested and not typed:  # there 0 is as None
            yield "default", node, f"{ast.unparse(node.func)}({ast.unparse(node.args[0])}, 0)"
    if isinstance(node, ast.IfExp) and ast.unparse(node.orelse) == "None":
        yield "default", node.orelse, "0"
    if isinstance(node, ast.keyword) and node.arg == "default" and ast.unparse(node.value) == "None":
        yield "default", node.value, "0"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns:
        empty = _empty(ast.unparse(node.returns))
        for part in _own(node):
            if empty and isinstance(part, ast.Return) and part.value and ast.unparse(part.value) == "None":
                yield "default", part.value, empty
    if isinstance(node, ast.AnnAssign):
        empty = _empty(_plain(node.annotation))
        if empty and node.value and ast.unparse(node.value) == "None":
            yield "default", node.value, empty


def _declared_here(node: ast.AST, name: str) -> str | None:
    """Return the type that the functions around a node declare for a parameter of a name."""
    while (node := _parent(node)) is not None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if one.arg == name and one.annotation is not None:
                    return _plain(one.annotation)
    return None


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of functions in it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _own(child)


def _order(node: ast.AST, _: Declared) -> Iterator[Change]:
    """Yield the first for the last, and one for another of a pair."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        if name == "reversed":
            yield "first or last", node, f"list({ast.unparse(node.args[0])})"
        if name in FALSE_FRIENDS:
            whole = ast.unparse(node.func)
            yield "first or last", node.func, f"{whole.removesuffix(name)}{FALSE_FRIENDS[name]}"
        for one in node.keywords:
            if one.arg == "reverse" and ast.unparse(one.value) == "True":
                yield "first or last", one.value, "False"
            if name == "timedelta" and one.arg in UNITS_OF_TIME:
                yield "unit", one, f"{UNITS_OF_TIME[one.arg]}={ast.unparse(one.value)}"
        for left, right in pairwise(node.args):
            plain = all(isinstance(one, ast.Name | ast.Attribute | ast.Subscript) for one in (left, right))
            alike = (
                isinstance(left, ast.Constant)
                and isinstance(right, ast.Constant)
                and type(left.value) is type(right.value)
            )
            if (plain or alike) and name not in NOT_SWAPPED and ast.unparse(left) != ast.unparse(right):
                others = [ast.unparse(one) for one in [*node.args, *node.keywords]]
                place = node.args.index(left)
                others[place], others[place + 1] = others[place + 1], others[place]
                yield "swapped", node, f"{ast.unparse(node.func)}({', '.join(others)})"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div):
        sign = "-" if isinstance(node.op, ast.Sub) else "/"
        if not isinstance(node.right, ast.Constant):
            yield "swapped", node, f"({ast.unparse(node.right)} {sign} ({ast.unparse(node.left)}))"


def _numbers(node: ast.AST, _: Declared) -> Iterator[Change]:
    """Yield a boundary by one, and another unit."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
        sign = COMPARED[type(node.ops[0])][1]
        yield "boundary", node, f"{ast.unparse(node.left)} {sign} {ast.unparse(node.comparators[0])}"
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "range":
        yield "boundary", node.args[-1 if len(node.args) == 1 else 1], f"{ast.unparse(node.args[-1])} - 1"
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "enumerate" and len(node.args) == 2:
        yield "boundary", node.args[1], f"{ast.unparse(node.args[1])} - 1"
    if isinstance(node, ast.Slice):
        for bound in (node.lower, node.upper):
            if bound is not None:
                yield "boundary", bound, f"{ast.unparse(bound)} + 1"
    if isinstance(node, ast.BinOp):
        number = node.right.value if isinstance(node.right, ast.Constant) else None
        if isinstance(node.op, ast.Add | ast.Sub) and number == 1:
            yield "boundary", node, ast.unparse(node.left)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv):
        right = node.right
        if number in UNITS or UNIT_NAME.search(ast.unparse(right)):
            yield "unit", right, f"({ast.unparse(right)} * 1000)"


def _filters(node: ast.AST, _: Declared) -> Iterator[Change]:
    """Yield what forgets a condition."""
    if isinstance(node, ast.comprehension):
        for condition in node.ifs:
            yield "filter", condition, "True"
    if isinstance(node, ast.If) and not node.orelse and isinstance(node.body[0], ast.Continue):
        yield "filter", node.test, "False"
    if isinstance(node, ast.BoolOp) and not any(isinstance(n, ast.NamedExpr) for n in ast.walk(node)):
        for one in node.values:
            rest = [f"({ast.unparse(other)})" for other in node.values if other is not one]
            word = " and " if isinstance(node.op, ast.And) else " or "
            yield "filter", node, word.join(rest)


KINDS: tuple[Callable[[ast.AST, Declared], Iterator[Change]], ...] = (
    _records, _unknown, _order, _numbers, _filters
)  # fmt: skip


def _types(tree: ast.AST) -> set[ast.AST]:
    """Return the nodes of annotations."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if (annotation := getattr(node, name, None)) is not None:
                found |= set(ast.walk(annotation))
    return found


def places(root: Path, path: str) -> Iterator[Place]:
    """Yield every place of a file."""
    source = (root / path).read_text()
    if path.endswith(".py"):
        yield from _in_python(source, path, declared(root))
    elif path.endswith(".sql"):
        for kind, start, end, text in _by_patterns(source, IN_SQL):
            yield _in_text(source, path, kind, start, end, text)
    else:
        for part in re.finditer(r"\{[{%].*?[%}]\}", source, re.DOTALL):
            for kind, start, end, text in _in_braces(part[0], declared(root)):
                yield _in_text(source, path, kind, part.start() + start, part.start() + end, text)


def _in_braces(part: str, known: Declared) -> Iterator[tuple[str, int, int, str]]:
    yield from _by_patterns(part, IN_TEMPLATE)
    for found in re.finditer(r"(?<=\.)[a-z_]+\b(?!\()", part):
        if found[0] in known.neighbours:
            yield "neighbour", *found.span(), known.neighbours[found[0]]


def _by_patterns(
    source: str, patterns: Sequence[tuple[str, str, str]]
) -> Iterator[tuple[str, int, int, str]]:
    for kind, pattern, text in patterns:
        for found in re.finditer(pattern, source):
            if text == "sql-filter":
                yield kind, found.start(2), found.end(), f"{found[2]} true"
            else:
                yield kind, *found.span(), text


def _in_text(source: str, path: str, kind: str, start: int, end: int, text: str) -> Place:
    line = source.count("\n", 0, start) + 1
    start, end = (len(source[:at].encode()) for at in (start, end))
    return Place(path, kind, start, end, text, line, (line, line), at_import=False)


def _in_python(source: str, path: str, known: Declared) -> Iterator[Place]:
    encoded = source.encode()
    begins = [0]
    for line in encoded.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    lines = source.splitlines()
    tree = ast.parse(source)
    types = _types(tree)
    for around in ast.walk(tree):
        for child in ast.iter_child_nodes(around):
            child.parent = around  # type: ignore[attr-defined]

    def walk(node: ast.AST, statement: tuple[int, int], inside: bool) -> Iterator[Place]:
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            statement = (node.lineno, max(node.lineno, last))
        changes: list[tuple[str, int, int, str]] = []
        if node not in types:
            for kind in KINDS:
                for name, replaced, text in kind(node, known):
                    part: Any = replaced
                    start = begins[part.lineno - 1] + part.col_offset
                    changes.append((name, start, begins[part.end_lineno - 1] + part.end_col_offset, text))
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                start = begins[node.lineno - 1] + node.col_offset
                text = encoded[
                    start : begins[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
                ].decode()
                if re.search(r"\b(SELECT|WHERE|ORDER BY|FROM|AND|FILTER)\b", text):
                    for name, a, b, new in _by_patterns(text, IN_SQL):
                        whole = f"{text[:a]}{new}{text[b:]}"
                        changes.append((name, start, start + len(text.encode()), whole))
        for name, start, end, text in changes:
            line = bisect_right(begins, start)
            if not any(word in lines[line - 1] for word in TYPE_ONLY):
                yield Place(path, name, start, end, text, line, statement, at_import=not inside)
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        bodies = (
            {id(part) for part in getattr(node, "body", [])}
            if function and hasattr(node.body, "__iter__")
            else set()
        )
        for child in ast.iter_child_nodes(node):
            yield from walk(child, statement, inside or id(child) in bodies or isinstance(node, ast.Lambda))

    yield from walk(tree, (1, 1), inside=False)


def mutate(root: Path, place: Place) -> Mutant | None:
    """Make a place's mistake; return None if Python cannot compile the outcome, or it is what was there."""
    original = (root / place.path).read_text().encode()
    source = (original[: place.start] + place.text.encode() + original[place.end :]).decode()
    if place.path.endswith(".py"):
        try:
            with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
                made = compile(source, place.path, "exec", dont_inherit=True, flags=ast.PyCF_ONLY_AST)
                compile(source, place.path, "exec", dont_inherit=True)
        except (SyntaxError, UnicodeDecodeError):
            return None
        if ast.dump(made) == ast.dump(ast.parse(original)):
            return None
    first, last = original[: place.start].rfind(b"\n") + 1, original.find(b"\n", place.end)
    last = len(original) if last < 0 else last
    before = original[first:last].decode()
    after = (original[first : place.start] + place.text.encode() + original[place.end : last]).decode()
    plain = ("\n".join(line.strip() for line in text.splitlines()) for text in (before, after))
    return Mutant(place, source, *plain)


def room_of(path: str) -> str:
    """Return the room of a file: its first two folders, or the one; of an app the third, too."""
    folders = Path(path).parent.parts
    return "/".join(folders[: 3 if "apps" in folders else 2])


def sample(root: Path, paths: Sequence[str], size: int, seed: int) -> tuple[list[Mutant], int]:
    """Return a sample of the mutants of the files, and how many places there are.

    Each room has its share by lines, and in a room the kinds of mistakes take turns.
    """
    lines: Counter[str] = Counter()
    every: dict[str, dict[str, list[Place]]] = defaultdict(lambda: defaultdict(list))
    for path in paths:
        lines[room_of(path)] += len((root / path).read_text().splitlines())
        for place in places(root, path):
            every[room_of(path)][place.kind].append(place)
    chosen: list[Mutant] = []
    for room, number in _shares({room: lines[room] for room in every}, size).items():
        kinds = [
            sorted(found, key=lambda place: _rank(seed, *map(str, place))) for found in every[room].values()
        ]
        kinds.sort(key=lambda found: _rank(seed, room, found[0].kind))
        turns = [
            place for turn in range(max(map(len, kinds))) for kind in kinds for place in kind[turn : turn + 1]
        ]
        made = filter(None, (mutate(root, place) for place in turns))
        chosen += [mutant for mutant, _ in zip(made, range(number), strict=False)]
    chosen.sort(key=lambda mutant: _rank(seed, *map(str, mutant.place)))
    return chosen, sum(len(found) for kinds in every.values() for found in kinds.values())


def _shares(lines: Mapping[str, int], size: int) -> dict[str, int]:
    """Return how many of a size each room has, by its lines: what is left goes to the largest remainders."""
    exact = {room: size * number / sum(lines.values()) for room, number in lines.items()}
    left = size - sum(map(int, exact.values()))
    more = set(sorted(exact, key=lambda room: (int(exact[room]) - exact[room], room))[:left])
    return {room: int(number) + (room in more) for room, number in exact.items()}


def _rank(seed: int, *parts: str) -> bytes:
    return hashlib.sha256("\0".join([str(seed), *parts]).encode()).digest()


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
