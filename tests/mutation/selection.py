"""Which tests execute which lines, and which of them to run on a mutant."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import coverage
from forked import run
from mutants import Place

LIMIT_S = 1200  # for one test file
BUDGET_S = 15.0  # of the tests that run on one mutant
FEW = 30
NOT_PYTHON = {".sql", ".html"}


class Tests(NamedTuple):
    """What is known about the tests."""

    costs: dict[str, float]  # low for a quick test that executes few lines
    durations: dict[str, float]  # CPU seconds
    lines: dict[tuple[str, int], set[str]]
    modules: dict[str, set[str]]


def measure(checkout: Path, test_file: str, folders: Iterable[str]) -> dict[str, Any]:
    """Run a test file; return which tests failed, how long the others took, and which executed each line."""
    lines: dict[str, dict[int, list[str]]] = {}

    def keep(folder: Path) -> None:
        data = coverage.CoverageData(str(folder / "coverage"))
        data.read()
        for path in data.measured_files():
            lines[str(Path(path).relative_to(checkout))] = {
                line: sorted({context.rpartition("|")[0] for context in contexts if context})
                for line, contexts in data.contexts_by_lineno(path).items()
            }

    settings = checkout / ".coveragerc.mutation"
    sources = ", ".join(str(checkout / folder) for folder in folders)
    settings.write_text(f"[run]\nsource = {sources}\ndata_file = ${{TMPDIR}}/coverage\n")
    arguments = [f"--cov-config={settings}", "--cov", "--cov-context=test", "--cov-report=", test_file]
    outcome = run(checkout, arguments, limit_s=LIMIT_S, keep=keep)
    texts = {path: digest((checkout / path).read_text()) for path in lines}
    return {"failed": outcome.failed, "durations": outcome.durations, "lines": lines, "texts": texts}


def digest(*parts: str) -> str:
    """Return a name for texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def combine(root: Path, measured: Iterable[dict[str, Any]]) -> Tests:
    """Bring what was measured of each test file together; a test that failed is left out.

    Of a module that is another than it was when it was measured, only which tests reach it is known.
    """
    now: dict[str, str] = {}
    durations: dict[str, float] = {}
    lines: dict[tuple[str, int], set[str]] = defaultdict(set)
    modules: dict[str, set[str]] = defaultdict(set)
    executed: Counter[str] = Counter()
    for one in measured:
        passed = {test: s for test, s in one["durations"].items() if test not in one["failed"]}
        durations |= passed
        for path, by_line in one["lines"].items():
            if not (root / path).exists():
                continue
            if path not in now:
                now[path] = digest((root / path).read_text())
            for line, tests in by_line.items():
                known = passed.keys() & set(tests)
                if now[path] == one["texts"][path]:
                    lines[path, int(line)] |= known
                modules[path] |= known
                executed.update(known)
    costs = {test: (s + 0.02) * (executed[test] + 50) for test, s in durations.items()}
    return Tests(costs, durations, lines, modules)


def select(root: Path, tests: Tests, place: Place) -> dict[str, float]:
    """Return the tests to run on a mutant with their durations, the most promising first.

    They execute its line; the rows of its functions come first, then those in a file that is named after the
    module, then cases. If those are few, other tests of its module follow, and of its room: where a value is
    kept or a fixture shared, the line ran for one test alone; what runs in another process is not measured.
    Of a query or a template, they execute a line that names it.
    """
    first, last = place.statement
    exact = tests.lines.get((place.path, place.line), set())
    near = exact or set().union(*(tests.lines.get((place.path, n), ()) for n in range(first, last + 1)))
    module = tests.modules.get(place.path, set())
    if Path(place.path).suffix in NOT_PYTHON:
        near, module = _naming(root, tests, place.path)

    rows = f"[{place.path.removesuffix('.py').replace('/', '.')}]"

    def order(test: str) -> tuple[bool, bool, bool, float]:
        file = test.partition("::")[0]
        is_named = Path(place.path).stem in file
        return not test.endswith(rows), not is_named, not file.endswith("/test_cases.py"), tests.costs[test]

    chosen = sorted(set() if place.at_import else near, key=order)
    if place.at_import or len(chosen) < FEW:
        chosen += _of_each_file(sorted(module - set(chosen), key=order))
        chosen += _of_each_file(sorted(_of_room(tests, place.path) - set(chosen), key=order))
    return _within(tests, chosen)


def _of_room(tests: Tests, path: str) -> set[str]:
    """Return the tests of a module's room: what they run in processes of its own is not measured."""
    folders = set(Path(path).parent.parts)
    folders |= (
        {"serve", "view", "watch"} if "server" in folders else {"serve"} if "receiver" in folders else set()
    )
    return {test for test in tests.durations if Path(test.partition("::")[0]).parent.name in folders}


def _of_each_file(chosen: Sequence[str]) -> list[str]:
    """Return tests so that the first of each file come before the second ones."""
    before: Counter[str] = Counter()
    places: dict[str, int] = {}
    for test in chosen:
        file = test.partition("::")[0]
        places[test] = before[file]
        before[file] += 1
    return sorted(chosen, key=places.__getitem__)


def _naming(root: Path, tests: Tests, path: str) -> tuple[set[str], set[str]]:
    """Return the tests of the lines of its folder's modules that name a file, and those of the modules."""
    near: set[str] = set()
    module: set[str] = set()
    folder = Path(path).parent
    if folder.name in ("sql", "templates"):
        folder = folder.parent
    for known in tests.modules:
        if known.startswith(f"{folder}/"):
            for number, line in enumerate((root / known).read_text().splitlines(), 1):
                if re.search(rf"\b{Path(path).stem}\b", line):
                    near |= tests.lines.get((known, number), set())
                    module |= tests.modules[known]
    return near, module or set().union(
        *(t for known, t in tests.modules.items() if known.startswith(f"{folder}/"))
    )


def _within(tests: Tests, chosen: Sequence[str]) -> dict[str, float]:
    """Return the first tests, with their durations, that together take no longer than the budget."""
    total, within = 0.0, {}
    for test in chosen:
        if total + tests.durations[test] <= BUDGET_S:
            total += tests.durations[test]
            within[test] = tests.durations[test]
    return within
