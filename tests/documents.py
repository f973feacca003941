"""Documents that promise something, sentence by sentence: which of them no test quotes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

_FENCE = re.compile(r"^\s*(```|~~~)")
_RULE = re.compile(r"^\s*([-*_]\s*){3,}$|^\s*\|[\s:|-]+\|\s*$")
_LIST_ITEM = re.compile(r"^\s*([*+-]|\d+\.)\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[)*_\"']*\s+(?=[\"'(*_`]*[A-Z0-9])")


def sentences(markdown: str) -> list[str]:
    """Return the sentences of a Markdown text, each on one line, without emphasis.

    A row of a table is one sentence, its cells joined by " | ". So is a block of code: its first line with a
    letter. Headings, the heads of tables and rules are no sentences.
    """
    return [one for block in _blocks(markdown.splitlines()) for one in block]


def uncovered(markdown: str, quotes: Iterable[str]) -> list[str]:
    """Return the sentences of a document in which none of the quotes occurs."""
    parts = list(quotes)
    return [one for one in sentences(markdown) if not any(part in one for part in parts)]


def misquoted(markdown: str, quotes: Collection[str]) -> list[str]:
    """Return the quotes that occur in no sentence of a document, or in several."""
    known = sentences(markdown)
    return [part for part in quotes if sum(part in one for one in known) != 1]


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    paragraph: list[str] = []
    code: list[str] | None = None
    in_table = False
    for line in [*lines, ""]:
        row = line.strip().startswith("|") and code is None
        starts = (
            not line.strip() or line.startswith("#") or row or _LIST_ITEM.match(line) or _RULE.match(line)
        )
        if paragraph and (starts or _FENCE.match(line)):
            yield _split(" ".join(paragraph))
            paragraph = []
        if _FENCE.match(line):
            if code is not None:
                yield [next((text.strip() for text in code if re.search(r"[^\W\d_]", text)), "")]
            code = [] if code is None else None
        elif code is not None:
            code.append(line)
        elif row:
            if in_table and not _RULE.match(line):
                yield [" | ".join(_plain(cell) for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")))]
            in_table = True
            continue
        elif line.strip() and not line.startswith("#") and not _RULE.match(line):
            paragraph.append(_LIST_ITEM.sub("", line))
        in_table = False


def _split(text: str) -> list[str]:
    return [_plain(part) for part in _SENTENCE_END.split(text) if _plain(part)]


def _plain(text: str) -> str:
    """Return text without emphasis; code keeps its backticks, and what is in them."""
    pieces = re.split(r"(`[^`]*`)", " ".join(text.split()))
    plain = [piece if piece.startswith("`") else re.sub(r"\*+", "", piece) for piece in pieces]
    return "".join(plain).strip()
