"""Recorded values as texts of a page: a long one is cut, and its place says where the rest is."""

from __future__ import annotations

from typing import Any, NamedTuple

from spangrade.tracer.base.canonical_json import dumps

LONGEST = 4_000  # characters that a page shows at once
CHUNK = 100_000  # characters that are loaded on demand: a browser lays them out in 0.1 s


class TextLimits(NamedTuple):
    """How much a page shows at once: characters of a text, items of a turn, bars, and the golden question.

    With `on_demand` the server has the rest; else the page is a file and has all that it will ever show.
    """

    longest: int = LONGEST
    items: int = 200
    bars: int = 500
    with_golden: bool = True
    on_demand: bool = True


class Place(NamedTuple):
    """Where a value is in a session: the table, the number of the record (position or turn), the field."""

    table: str
    number: int
    field: str


class Text(NamedTuple):
    """A value as text, or its beginning; `length` is that of the whole, in characters."""

    shown: str
    length: int
    place: Place

    @property
    def is_cut(self) -> bool:
        """Whether there is more of it."""
        return self.length > len(self.shown)


class Chunk(NamedTuple):
    """A part of a long text; `next_offset` is None at its end, `left` how many characters follow."""

    shown: str
    next_offset: int | None
    left: int
    place: Place


def as_text(value: Any) -> str:
    """Return a value as people read it: a text as it is, anything else as indented JSON."""
    return value if isinstance(value, str) else dumps(value, indent=True)


def text(value: Any, place: Place, longest: int = LONGEST) -> Text:
    """Return a value as text, cut after a number of characters."""
    whole = as_text(value)
    return Text(whole[:longest], len(whole), place)


def chunk(value: Any, place: Place, offset: int) -> Chunk:
    """Return the part of a text that begins at an offset."""
    whole = as_text(value)
    end = offset + CHUNK
    return Chunk(whole[offset:end], end if end < len(whole) else None, max(0, len(whole) - end), place)
