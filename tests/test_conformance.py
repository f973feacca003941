"""The page on conformance: each row is a promise of a document, with the test that executes it."""

from __future__ import annotations

import re

import pytest
from conformance import PAGE, Document, documents, page_of

FOUND = list(documents())


def test_the_page_is_what_the_tests_quote() -> None:
    assert PAGE.read_text(encoding="utf-8") == page_of(FOUND), "run `python tests/conformance.py`"


@pytest.mark.parametrize("document", FOUND, ids=lambda document: document.name)
def test_each_row_names_a_test_that_there_is(document: Document) -> None:
    defined = re.findall(
        r"^(?:async )?def (test_\w+)\(", document.tests.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {promise.test for promise in document.promises} - set(defined) == set()
    assert len(document.promises) >= 30
