"""The page docs/limits.md: what two documents promise, what holds here, and the test of each promise.

`python tests/conformance.py` writes it from the sentences that the tests quote.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from paths import ROOT

PAGE = ROOT / "docs" / "notes" / "conformance.md"
LONGEST = 160  # characters of a sentence or of a block of code

HEAD = """# Conformance

spangrade follows two documents: a guide to evaluation datasets, and "Evals as unit tests" of the Line SDK.
Here is each of their sentences, rows of tables and blocks of code (by its beginning), what holds here, and
the test that shows it. Two tests read the documents, where they are, and fail if they have a sentence that
is not here.

This page is written by `tests/conformance.py`.
"""


class Promise(NamedTuple):
    """A sentence of a document, the words for what differs here (empty: nothing), and the test of it."""

    sentence: str
    differs: str
    test: str


class Document(NamedTuple):
    """A document: its name, the page that says what differs, the file of its tests, and its promises."""

    name: str
    page: str
    tests: Path
    promises: tuple[Promise, ...]


def loaded(path: Path) -> ModuleType:
    """Return a module of tests, as pytest would import it."""
    spec = importlib.util.spec_from_file_location(f"conformance_of_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


def documents() -> Iterator[Document]:
    """Yield the documents with what their tests quote."""
    tests = ROOT / "tests" / "converters" / "datasets" / "test_guide_to_datasets.py"
    guide = loaded(tests)
    yield Document(
        "Guide to evaluation datasets",
        "../golden_questions.md#where-this-differs-from-the-guide",
        tests,
        (
            *(Promise(sentence, "", test) for sentence, test in guide.QUOTED.items()),
            *(
                Promise(sentence, words, "test_every_deviation_from_the_guide_is_documented")
                for sentence, words in guide.DEVIATIONS.items()
            ),
        ),
    )
    tests = ROOT / "tests" / "evaluator" / "agents" / "test_document.py"
    evals = loaded(tests)
    yield Document(
        "Evals as unit tests",
        "../pytest.md#where-this-differs-from-the-document",
        tests,
        tuple(
            Promise(sentence, _words(sentence, evals.DEVIATIONS), test)
            for sentence, test in evals.quoted.items()
        ),
    )


def _words(sentence: str, deviations: Mapping[str, str]) -> str:
    """Return the words for what differs from a sentence, empty if nothing does."""
    plain = sentence.replace("`", "")
    return next((words for part, words in deviations.items() if part in plain), "")


def page_of(found: Iterable[Document]) -> str:
    """Return the page."""
    return "\n".join([HEAD, *(text for one in found for text in _section(one))])


def _section(document: Document) -> Iterator[str]:
    tests = document.tests.relative_to(ROOT).as_posix()
    yield f"## {document.name}\n"
    yield f"Tests: `{tests}`. What differs, and why: [{document.page.partition('#')[0]}]({document.page}).\n"
    yield "| promise | here | test |\n|---|---|---|"
    for promise in document.promises:
        here = f"differs: {_cell(promise.differs)}" if promise.differs else "holds"
        yield f"| {_cell(promise.sentence)} | {here} | `{promise.test}` |"
    yield ""


def _cell(text: str) -> str:
    """Return a text as the cell of a table."""
    line = " ".join(text.split())
    line = line if len(line) <= LONGEST else f"{line[:LONGEST].rstrip()} …"
    escaped = (
        line.replace("\\", "\\\\")
        .replace("|", "\\|")
        .replace("<", "&lt;")
        .replace("`", "")
        .replace("*", "\\*")
    )
    return escaped.replace("_", "\\_").replace("[", "\\[")


if __name__ == "__main__":
    PAGE.write_text(page_of(documents()), encoding="utf-8")
