"""The pages of the documentation, by name, and the sections of them that have some words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import spangrade
from spangrade.tracer.base.errors import InputError

_HEADING = re.compile(r"^#{1,3} +(.+)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_FOUND = 8  # sections


class Section(NamedTuple):
    """A part of a page, under its heading."""

    page: str
    heading: str
    text: str


def pages() -> dict[str, Path]:
    """Return the files of the pages by name, such as `metrics`."""
    folders = [folder for root in spangrade.__path__ if (folder := Path(root) / "docs").is_dir()]
    return {file.stem: file for folder in folders for file in sorted(folder.glob("*.md"))}


def sections(page: str) -> list[Section]:
    """Return the sections of a page, in order. Raises InputError if there is no such page."""
    known = pages()
    name = page.strip().removesuffix(".md").removeprefix("docs/")
    if name not in known:
        raise InputError(f"page: expected one of {', '.join(known)}")
    return list(_sections(name, known[name].read_text(encoding="utf-8")))


def search(words: str) -> list[Section]:
    """Return the sections that have most of some words, the best first."""
    wanted = {word.lower() for word in re.findall(r"[\w-]{2,}", words)}
    found = []
    for name in pages():
        for one in sections(name):
            heading, text = one.heading.lower(), one.text.lower()
            hits = [word for word in wanted if word in text or word in heading]
            if hits:
                weight = sum(3 * (word in heading) + min(text.count(word), 3) for word in hits)
                found.append((-len(hits), -weight, len(text), one))
    return [one for *_, one in sorted(found, key=lambda each: each[:3])[:_FOUND]]


def _sections(page: str, text: str) -> Iterator[Section]:
    fenced = [(found.start(), found.end()) for found in _FENCED.finditer(text)]
    starts = [
        found
        for found in _HEADING.finditer(text)
        if not any(start <= found.start() < end for start, end in fenced)
    ]
    for number, found in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
        yield Section(page, found[1], text[found.end() : end].strip())
