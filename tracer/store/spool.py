"""The spool: spans and logs on disk that are not in the database yet, in `FILE.spool/` beside it.

DuckDB has one writer at a time. A process that cannot wait for it (a receiver that must answer, an agent
whose database is being read) writes records here, and the next process that opens the database for writing
loads them. The store keeps each span once, so a segment that was loaded but not removed does no harm.

A segment is a sequence of frames: a header with the payload's length and CRC-32, then the payload, an Arrow
IPC stream of rows. (Per span of 1.2 kB, on two cores: 2 µs to rows, 0.3 µs to a frame, 0.2 µs back.) Its name
ends in `.open` (an agent's: `.part`) while it grows and in `.spool` when it is sealed.
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
from spangrade.tracer.file_modes import file_mode, folder_mode
from spangrade.tracer.store.arrow import Table
from spangrade.tracer.store.store import Added, Store

_log = logging.getLogger("spangrade")
_HEADER = struct.Struct("<4sIII")  # magic, kind of table, length, CRC-32 of the payload
_MAGIC = b"SGS1"
_TABLES: tuple[Table, ...] = ("spans", "logs")
_numbers = count()


class DamagedError(StoreError):
    """A segment whose bytes are not those that were written."""


class Frame(NamedTuple):
    """Rows of one table."""

    table: Table
    rows: na.Array


def folder_of(db: Path) -> Path:
    """Return the folder of a database's spool."""
    return db.with_name(f"{db.name}.spool")


def to_frames(tables: Mapping[Table, na.Array]) -> bytes:
    """Return the frames of rows as bytes."""
    parts = []
    for table, rows in tables.items():
        out = io.BytesIO()
        with StreamWriter.from_writable(out) as writer:
            writer.write_array(rows)
        payload = out.getvalue()
        parts += [_HEADER.pack(_MAGIC, _TABLES.index(table), len(payload), zlib.crc32(payload)), payload]
    return b"".join(parts)


def read_frames(segment: Path) -> Iterator[Frame]:
    """Yield the frames of a segment; raise DamagedError at the first that is cut short or altered."""
    for _, kind, payload in _payloads(segment):
        with InputStream.from_readable(io.BytesIO(payload)) as stream:
            yield Frame(_TABLES[kind], na.ArrayStream(stream).read_all())


def _payloads(segment: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield each frame's end, the number of its table, and its payload."""
    with segment.open("rb") as file:
        while header := file.read(_HEADER.size):
            start, payload = file.tell() - len(header), b""
            if len(header) == _HEADER.size:
                magic, kind, length, checksum = _HEADER.unpack(header)
                if magic == _MAGIC and kind < len(_TABLES):
                    payload = file.read(length)
            if not payload or len(payload) != length or zlib.crc32(payload) != checksum:
                raise DamagedError(f"{segment}: damaged or cut short at byte {start}")
            yield file.tell(), kind, payload


class Segment:
    """A segment that grows. Use it from one thread at a time."""

    def __init__(self, folder: Path, suffix: str = ".open") -> None:
        folder.mkdir(mode=folder_mode(), exist_ok=True)
        # Segments sort by name: by time, process, and number in the process.
        self._path = folder / f"{time.time_ns():020d}-{os.getpid()}-{next(_numbers):06d}{suffix}"
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file_mode())
        _sync_folder(folder)
        self.size = 0

    def append(self, parts: Sequence[bytes]) -> None:
        """Write frames; when it returns, they are on disk. Raises OSError, with none of them kept."""
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
        """Seal the segment, so that it can be loaded; remove it if it is empty."""
        os.close(self._file)
        if self.size:
            self._path.rename(self._path.with_suffix(".spool"))
        else:
            self._path.unlink(missing_ok=True)


def write(db: Path, tables: Mapping[Table, na.Array]) -> None:
    """Write rows to the spool, for the next writer of the database. Raises OSError."""
    segment = Segment(folder_of(db), ".part")  # a receiver must not recover it
    try:
        segment.append([to_frames(tables)])
    finally:
        segment.close()


def waiting(db: Path) -> list[Path]:
    """Return the sealed segments of a database's spool, oldest first."""
    return sorted(folder_of(db).glob("*.spool"))


def recover(db: Path) -> None:
    """Seal the segments that a crashed receiver left open; the caller must hold the spool's lock.

    A frame that was cut short was never acknowledged, and is left out.
    """
    for segment in sorted(folder_of(db).glob("*.open")):
        intact = 0
        with suppress(DamagedError):
            for intact, _, _ in _payloads(segment):  # noqa: B007 (the end of the last frame)
                pass
        if intact:
            os.truncate(segment, intact)
            segment.rename(segment.with_suffix(".spool"))
        else:
            segment.unlink()


def drain(store: Store, *, until_s: float | None = None) -> Added:
    """Move the spool's segments into the database, one transaction each; return how many records were new.

    Stops after the segment during which `time.monotonic()` passes `until_s`. A damaged segment is renamed to
    `*.rejected` and logged. Raises StoreError if the database cannot be written.
    """
    total = Added(0, 0, 0)
    for segment in waiting(store.path):
        try:
            added = store.add_rows(_tables(read_frames(segment)))
        except FileNotFoundError:
            continue  # loaded by another process
        except StoreError as error:
            if not isinstance(error, DamagedError) and not isinstance(error.__cause__, duckdb.DataError):
                raise
            segment.rename(segment.with_suffix(".rejected"))
            _log.error("%s: renamed to .rejected: %s", segment, error)
            continue
        if not store.in_place():
            raise StoreError(f"{store.path}: deleted or replaced while it was written")
        segment.unlink(missing_ok=True)
        total = Added(*map(sum, zip(total, added, strict=True)))
        if until_s is not None and time.monotonic() >= until_s:
            break
    return total


def _tables(frames: Iterable[Frame]) -> dict[Table, list[na.Array]]:
    tables: dict[Table, list[na.Array]] = {}
    for table, rows in frames:
        tables.setdefault(table, []).append(rows)
    return tables


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # only POSIX systems can sync a folder
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
