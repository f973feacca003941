"""The spool: spans and logs on disk that the database does not have yet, in `FILE.spool/` beside it.

DuckDB has one writer at a time. Who cannot wait for it (a receiver that owes an answer, an agent whose
database is being read) leaves records here, and whoever has the database open for writing next takes them
in. The store keeps a span once, so a segment that was taken in and not yet removed does no harm.

A segment is a row of frames: a header with the payload's length and CRC-32, then the payload, an Arrow IPC
stream of rows as the store holds them. (A span of 1.2 kB, two cores: 2 µs to rows, 0.3 µs to a frame, 0.2 µs
back.) It is named `*.open` (an agent's: `*.part`) while it grows and `*.spool` when it is whole.
"""

from __future__ import annotations

import io
import logging
import os
import struct
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

import duckdb
import nanoarrow as na
from nanoarrow.ipc import InputStream, StreamWriter

from spangrade.tracer.errors import StoreError
from spangrade.tracer.store.arrow import Table
from spangrade.tracer.store.store import Added, Store

_log = logging.getLogger("spangrade")
_HEADER = struct.Struct("<4sIII")  # magic, kind of table, length, CRC-32 of the payload
_MAGIC = b"SGS1"
_TABLES: tuple[Table, ...] = ("spans", "logs")
_numbers = count()


class DamagedError(StoreError):
    """A segment whose bytes are not what was written."""


class Frame(NamedTuple):
    """Rows of one table."""

    table: Table
    rows: na.Array


def folder_of(db: Path) -> Path:
    """Return where the spool of a database lies."""
    return db.with_name(f"{db.name}.spool")


def framed(tables: Mapping[Table, na.Array]) -> bytes:
    """Return rows as the bytes of their frames."""
    parts = []
    for table, rows in tables.items():
        out = io.BytesIO()
        with StreamWriter.from_writable(out) as writer:
            writer.write_array(rows)
        payload = out.getvalue()
        parts += [_HEADER.pack(_MAGIC, _TABLES.index(table), len(payload), zlib.crc32(payload)), payload]
    return b"".join(parts)


def frames(segment: Path) -> Iterator[Frame]:
    """Yield the frames of a segment; raises DamagedError at the first that is torn or altered."""
    for _, kind, payload in _payloads(segment):
        with InputStream.from_readable(io.BytesIO(payload)) as stream:
            yield Frame(_TABLES[kind], na.ArrayStream(stream).read_all())


def _payloads(segment: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield where each frame ends, its kind of table and its payload."""
    with segment.open("rb") as file:
        while header := file.read(_HEADER.size):
            begins, payload = file.tell() - len(header), b""
            if len(header) == _HEADER.size:
                magic, kind, length, checksum = _HEADER.unpack(header)
                if magic == _MAGIC and kind < len(_TABLES):
                    payload = file.read(length)
            if not payload or len(payload) != length or zlib.crc32(payload) != checksum:
                raise DamagedError(f"{segment}: damaged or cut short at byte {begins}")
            yield file.tell(), kind, payload


class Segment:
    """A segment that grows. Not for several threads at once."""

    def __init__(self, folder: Path, suffix: str = ".open") -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        # In the order of their names: of the time, then of the process, then of their making.
        self._path = folder / f"{time.time_ns():020d}-{os.getpid()}-{next(_numbers):06d}{suffix}"
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        _sync_folder(folder)
        self.size = 0

    def append(self, parts: Sequence[bytes]) -> None:
        """Write frames; when it returns they are on disk. Raises OSError, with none of them kept."""
        whole = memoryview(b"".join(parts))
        position = self.size
        try:
            os.lseek(self._file, position, os.SEEK_SET)
            while whole:
                written = os.write(self._file, whole)
                whole, position = whole[written:], position + written
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, self.size)
            raise
        self.size = position

    def close(self) -> None:
        """Hand the segment to whoever takes it in; an empty one is removed."""
        os.close(self._file)
        if self.size:
            self._path.rename(self._path.with_suffix(".spool"))
        else:
            self._path.unlink(missing_ok=True)


def leave(db: Path, tables: Mapping[Table, na.Array]) -> None:
    """Put rows on disk for the next writer of the database. Raises OSError."""
    segment = Segment(folder_of(db), ".part")  # not to be mistaken for what a dead receiver left
    try:
        segment.append([framed(tables)])
    finally:
        segment.close()


def waiting(db: Path) -> list[Path]:
    """Return the whole segments of a database's spool, oldest first."""
    return sorted(folder_of(db).glob("*.spool"))


def recover(db: Path) -> None:
    """Make the segments that a dead receiver left growing whole. Only its successor may call it.

    What was cut short at the end of one was never acknowledged, and is left out.
    """
    for segment in sorted(folder_of(db).glob("*.open")):
        whole = 0
        with suppress(DamagedError):
            for whole, _, _ in _payloads(segment):  # noqa: B007 (the last one counts)
                pass
        if whole:
            os.truncate(segment, whole)
            segment.rename(segment.with_suffix(".spool"))
        else:
            segment.unlink()


def drain(store: Store, *, until_s: float | None = None) -> Added:
    """Move the spool's segments into the database, one transaction each; return what was new.

    Stops after the segment during which `time.monotonic()` passes `until_s`. One that can never be taken in
    is set aside as `*.rejected` and logged. Raises StoreError where the database cannot take any.
    """
    total = Added(0, 0, 0)
    for segment in waiting(store.path):
        try:
            added = store.add_rows(_tables(frames(segment)))
        except FileNotFoundError:
            continue  # taken in by another
        except StoreError as error:
            if not isinstance(error, DamagedError) and not isinstance(error.__cause__, duckdb.DataError):
                raise
            segment.rename(segment.with_suffix(".rejected"))
            _log.error("%s: set aside as .rejected: %s", segment, error)
            continue
        if not store.in_place():
            raise StoreError(f"{store.path}: deleted or replaced while it was written")
        segment.unlink(missing_ok=True)
        total = Added(*map(sum, zip(total, added, strict=True)))
        if until_s is not None and time.monotonic() >= until_s:
            break
    return total


def _tables(found: Iterable[Frame]) -> dict[Table, list[na.Array]]:
    tables: dict[Table, list[na.Array]] = {}
    for table, rows in found:
        tables.setdefault(table, []).append(rows)
    return tables


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # elsewhere a folder is no file
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
