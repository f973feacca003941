"""The splitter of documents into sentences."""

from __future__ import annotations

from documents import misquoted, sentences, uncovered

TEXT = """# A heading. Not a sentence.

One *sentence*
over two lines (e.g., `a.b *c*`). **Another** one: it ends here! "A third?"

* An item. With two sentences.
1. A numbered item

---

| head | not counted |
|---|:---|
| `a` | **first** row. Still it |

```json
{
  "key": 1
}
```
> A quotation.
"""


def test_a_document_is_split_into_what_it_says() -> None:
    assert sentences(TEXT) == [
        "One sentence over two lines (e.g., `a.b *c*`).",
        "Another one: it ends here!",
        '"A third?"',
        "An item.",
        "With two sentences.",
        "A numbered item",
        "`a` | first row. Still it",
        '"key": 1',
        "> A quotation.",
    ]


def test_what_no_quote_covers_and_what_is_quoted_wrongly_is_found() -> None:
    quotes = ["One sentence", "Another one", "third", "item", "two sentences", "`a`", '"key"', "quotation"]
    assert uncovered(TEXT, quotes) == []
    assert uncovered(TEXT, quotes[1:]) == ["One sentence over two lines (e.g., `a.b *c*`)."]
    assert misquoted(TEXT, quotes) == ["item"]
    assert misquoted(TEXT, ["a sentence that is not there"]) == ["a sentence that is not there"]
