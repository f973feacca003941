"""The images that spans record in their messages: found by their shape, checked by their first bytes."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import orjson

MAX_BYTES = 10_000_000  # of an image
MOST = 20  # images of a span
_DEEPEST = 12  # levels of JSON that are searched

_DATA = re.compile(r"data:image/[a-z+.-]+;base64,([A-Za-z0-9+/=_-]+)")
# By content, not by what is said of it: an SVG could hold scripts.
_KINDS = ((b"\x89PNG\r\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


class Image(NamedTuple):
    """An image: its kind, such as image/png, and its bytes."""

    kind: str
    content: bytes


def images_of(record: Mapping[str, Any]) -> tuple[Image, ...]:
    """Return the images in the attributes and events of a stored span, in their order, at most `MOST`."""
    found: list[Image] = []
    for text in _encoded([record.get("attributes"), record.get("events")], 0):
        image = _decoded(text)
        if image is not None and image not in found:
            found.append(image)
        if len(found) == MOST:
            break
    return tuple(found)


def may_have_images(row: Iterable[Any]) -> bool:
    """Return whether a span as it is stored, its attributes as JSON text, speaks of an image anywhere."""
    return any(isinstance(value, str) and "image" in value for value in row)


def first_shown(records: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, ...]]:
    """Return the images of spans by the ids of these, as numbers from 0: each where it is recorded first.

    Model calls repeat the conversation before them with its images.
    """
    known: set[Image] = set()
    shown: dict[str, tuple[int, ...]] = {}
    for record in records:
        images = images_of(record)
        shown[record["span_id"]] = tuple(number for number, one in enumerate(images) if one not in known)
        known.update(images)
    return shown


def _encoded(value: Any, depth: int) -> Iterator[str]:
    """Yield the texts that may be images in base64: in data URLs, and in parts that name a kind of image."""
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        yield from _DATA.findall(value)
        if value[:1] in "[{" and "image" in value:
            try:
                inner = orjson.loads(value)
            except orjson.JSONDecodeError:
                return
            yield from _encoded_parts(inner, depth + 1)
        return
    yield from _encoded_parts(value, depth)


def _encoded_parts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, Mapping):
        kind = value.get("mime_type") or value.get("mimeType") or value.get("media_type")
        if isinstance(kind, str) and kind.startswith("image/"):
            texts = (value.get(name) for name in ("content", "data"))
            yield from (one for one in texts if isinstance(one, str) and one[:5] != "data:")
        for one in value.values():
            yield from _encoded(one, depth + 1)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _encoded(one, depth + 1)
    elif isinstance(value, str):
        yield from _encoded(value, depth)


def _decoded(text: str) -> Image | None:
    if len(text) > MAX_BYTES * 4 // 3 + 4:
        return None
    standard = text.replace("-", "+").replace("_", "/")
    try:
        content = base64.b64decode(standard + "=" * (-len(text) % 4), validate=True)
    except (ValueError, binascii.Error):
        return None
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return Image("image/webp", content)
    return next((Image(kind, content) for start, kind in _KINDS if content.startswith(start)), None)
