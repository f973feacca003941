"""Frames: the rows of a spool's segment, each with checksums, so that damage costs only the frame it hits.

A frame is a header and its payload, an Arrow IPC stream of rows. The header has a marker, the kind of table,
the payload's length and CRC-32, and a CRC-32 of its own: after damage the length can still be trusted, or the
next marker shows where to go on. (Per span of 1.2 kB, on two cores: 2 µs to rows, 0.3 µs to a frame, 0.2 µs
back.)
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import nanoarrow as na

from spangrade.tracer.store.arrow import Table, from_ipc, to_ipc

_TABLES: tuple[Table, ...] = ("spans", "logs")
_MARKER = b"SGS2"
_FIELDS = struct.Struct("<4sIII")  # marker, kind of table, length of the payload, CRC-32 of the payload
_CHECKSUM = struct.Struct("<I")  # CRC-32 of these fields
_HEADER_BYTES = _FIELDS.size + _CHECKSUM.size


class Frame(NamedTuple):
    """Rows of one table."""

    table: Table
    rows: na.Array


class Damage(NamedTuple):
    """Bytes of a segment, from `start` on, that are not an intact frame.

    `cut_short` is true if they are the beginning of a frame whose end is missing.
    """

    start: int
    content: bytes
    cut_short: bool


class _Header(NamedTuple):
    kind: int
    length: int
    checksum: int


def to_frames(tables: Mapping[Table, na.Array]) -> bytes:
    """Return the frames of rows as bytes."""
    parts = []
    for table, rows in tables.items():
        payload = to_ipc(rows)
        fields = _FIELDS.pack(_MARKER, _TABLES.index(table), len(payload), zlib.crc32(payload))
        parts += [fields, _CHECKSUM.pack(zlib.crc32(fields)), payload]
    return b"".join(parts)


def read_frames(segment: Path) -> Iterator[Frame | Damage]:
    """Yield the frames of a segment, and a Damage for the bytes between two of them that are not a frame."""
    with segment.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        position = 0
        while position < size:
            frame, end = _frame_at(file, position, size)
            yield frame
            position = end


def _frame_at(file: BinaryIO, position: int, size: int) -> tuple[Frame | Damage, int]:
    """Return the frame at a position, or the damage there, and where it ends."""
    file.seek(position)
    header = _header(file.read(_HEADER_BYTES))
    cut_short = False
    if header and (end := position + _HEADER_BYTES + header.length) <= size:
        if frame := _frame(header, file.read(header.length)):
            return frame, end
    else:
        end = _next_frame(file, position + 1, size)
        cut_short = end == size and (header is not None or size - position < _HEADER_BYTES)
    file.seek(position)
    return Damage(position, file.read(end - position), cut_short), end


def _header(content: bytes) -> _Header | None:
    """Return the header at the beginning of some bytes, None if they do not begin with an intact one."""
    fields = content[: _FIELDS.size]
    if not fields.startswith(_MARKER) or content[_FIELDS.size :] != _CHECKSUM.pack(zlib.crc32(fields)):
        return None
    _, kind, length, checksum = _FIELDS.unpack(fields)
    return _Header(kind, length, checksum) if kind < len(_TABLES) else None


def _frame(header: _Header, payload: bytes) -> Frame | None:
    """Return the frame with a payload, None if the payload was damaged."""
    if len(payload) != header.length or zlib.crc32(payload) != header.checksum:
        return None
    return Frame(_TABLES[header.kind], from_ipc(payload))


def _next_frame(file: BinaryIO, position: int, size: int) -> int:
    """Return where the next intact frame begins, at a position or after it, or the file's size."""
    file.seek(position)
    rest = file.read(size - position)
    at = -1
    while (at := rest.find(_MARKER, at + 1)) >= 0:
        header, begin = _header(rest[at : at + _HEADER_BYTES]), at + _HEADER_BYTES
        if header and _frame(header, rest[begin : begin + header.length]):
            return position + at
    return size
