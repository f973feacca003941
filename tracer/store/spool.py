"""The spool: spans and logs on disk that are not in the database yet, in `FILE.spool/` beside it.

DuckDB has one writer at a time. A process that cannot wait for it (a receiver that must answer, an agent
whose database is being read) writes records here, and the next process that opens the database for writing
loads them. The store keeps each span once, so a segment that was loaded but not removed does no harm.

A segment is a file of frames. Its name ends in `.open` (an agent's: `.part`) while it grows and in `.spool`
when it is sealed. The process that writes it holds the operating system's lock on it: a growing segment
without a lock was left by a process that died, and is sealed by the next process that looks. Damaged parts of
a segment are kept in `.rejected` beside it.

A frame is a header and its payload, an Arrow IPC stream of rows. The header has a marker, the kind of table,
the payload's length and CRC-32, and a CRC-32 of its own: after damage the length can still be trusted, or the
next marker shows where to go on. (Per span of 1.2 kB, on two cores: 2 µs to rows, 0.3 µs to a frame, 0.2 µs
back.)
"""

from __future__ import annotations

import logging
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO, NamedTuple

import duckdb
import nanoarrow as na

from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.base.file_modes import file_mode, folder_mode
from spangrade.tracer.store.arrow import Table, from_ipc, to_ipc
from spangrade.tracer.store.locks import is_same_file, lock, lock_file
from spangrade.tracer.store.store import Added, Store, database_file

_log = logging.getLogger("spangrade")
_numbers = count()
_REFUSED = (duckdb.DataError, duckdb.IntegrityError)  # rows that the tables cannot hold
_TABLES: tuple[Table, ...] = ("spans", "logs")
_MARKER = b"SGS2"
_FIELDS = struct.Struct("<4sIII")  # marker, kind of table, length of the payload, CRC-32 of the payload
_CHECKSUM = struct.Struct("<I")  # CRC-32 of these fields
_HEADER_BYTES = _FIELDS.size + _CHECKSUM.size


class DamagedSegment(NamedTuple):
    """A damaged part of a segment: its number of bytes, the file `kept_in` that has them, a sentence.

    `size` is 0 if the segment cannot be read now; it stays in the spool.
    """

    size: int
    kept_in: Path
    message: str


def _log_damage(damage: DamagedSegment) -> None:
    _log.error("%s", damage.message)


def folder_of(db: Path) -> Path:
    """Return the folder of a database's spool."""
    file = database_file(db)
    return file.with_name(f"{file.name}.spool")


class Segment:
    """A segment that grows, locked by this process. Use it from one thread at a time.

    Without `sync`, what is written outlives this process, but not a crash of the machine.
    """

    def __init__(self, folder: Path, suffix: str = ".open", *, sync: bool = True) -> None:
        self._suffix = suffix
        self._sync = sync
        self._path, self._file = _new_file(folder, suffix, sync=sync)
        self.size = 0

    def append(self, parts: Sequence[bytes]) -> None:
        """Write frames; when it returns, they are on disk. Raises OSError, with none of them kept."""
        whole = b"".join(parts)
        try:
            _write_at(self._file, whole, self.size, sync=self._sync)
            self._restore()
        except OSError:
            os.ftruncate(self._file, self.size)
            raise
        self.size += len(whole)

    def close(self) -> Path:
        """Seal the segment, so that it can be loaded, and return its path; remove it if it is empty."""
        try:
            if self.size:
                self._restore()
        finally:
            os.close(self._file)
        sealed = self._path.with_suffix(".spool")
        with suppress(FileNotFoundError):  # without its lock, another process may have sealed it already
            if self.size:
                self._path.rename(sealed)
            else:
                self._path.unlink()
        return sealed

    def _restore(self) -> None:
        """Write the segment to a new file if its own was removed."""
        if is_same_file(self._file, self._path):
            return
        content = os.pread(self._file, os.fstat(self._file).st_size, 0)
        path, file = _new_file(self._path.parent, self._suffix, sync=self._sync)
        try:
            _write_at(file, content, 0, sync=self._sync)
        except OSError:
            path.unlink(missing_ok=True)
            os.close(file)
            raise
        os.close(self._file)
        _log.warning("%s: removed while it was written; its content is restored in %s", self._path, path.name)
        self._path, self._file = path, file


def _new_file(folder: Path, suffix: str, *, sync: bool) -> tuple[Path, int]:
    """Return a new file in the folder, created if necessary, and its descriptor, which is locked."""
    folder.mkdir(mode=folder_mode(), exist_ok=True)
    while True:
        # Segments sort by name: by time, process, and number in the process.
        path = folder / f"{time.time_ns():020d}-{os.getpid()}-{next(_numbers):06d}{suffix}"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, file_mode())
        try:
            # Until it is locked it looks abandoned, and another process may remove it.
            if lock(file) and is_same_file(file, path):
                if sync:
                    _sync_folder(folder)
                return path, file
        except OSError:
            os.close(file)
            raise
        os.close(file)


def write(db: Path, tables: Mapping[Table, na.Array], *, sync: bool = True) -> Path:
    """Write rows to the spool, for the next writer of the database; return the sealed segment.

    Without `sync`, they outlive this process, but not a crash of the machine. Raises OSError.
    """
    segment = Segment(folder_of(db), ".part", sync=sync)
    try:
        segment.append([to_frames(tables)])
    finally:
        sealed = segment.close()
    return sealed


def waiting(db: Path) -> list[Path]:
    """Return the sealed segments of a database's spool, oldest first; seal the abandoned ones before."""
    recover(db)
    return spool_files(db, ".spool")


def spool_files(db: Path, *endings: str) -> list[Path]:
    """Return the files of a database's spool with one of these endings, oldest first.

    The list is empty without a spool, and for a user who may not read it. Raises OSError if it cannot be read
    for another reason, such as too many open files: `Path.glob` of Python 3.12 returns nothing then.
    """
    try:
        files = list(folder_of(db).iterdir())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    return sorted(file for file in files if file.name.endswith(endings))


def rejected_files(db: Path) -> list[Path]:
    """Return the files of a database's spool that could not be loaded, oldest first."""
    segments = (file for file in spool_files(db, "") if file.name[0].isdigit())
    return [file for file in segments if file.suffix not in (".open", ".part", ".spool")]


def recover(db: Path) -> None:
    """Seal the segments that grow and that no living process holds.

    A frame at the end that was cut short was never acknowledged, and is left out.
    """
    if os.name != "posix":
        return  # only there a lock shows whether a process lives
    for segment in spool_files(db, ".open", ".part"):
        with suppress(OSError):  # another process was faster, or the file system is read-only
            _recover(segment)


def _recover(segment: Path) -> None:
    file = os.open(segment, os.O_RDWR)
    try:
        if not lock(file) or not is_same_file(file, segment):
            return
        end = os.fstat(file).st_size
        for part in read_frames(segment):
            if isinstance(part, Damage) and part.cut_short:
                end = part.start
        if end:
            os.ftruncate(file, end)
            segment.rename(segment.with_suffix(".spool"))
        else:
            segment.unlink()
    finally:
        os.close(file)


def lock_of_receiver(folder: Path) -> Path:
    """Return the file that the receiver of a spool locks: beside the folder, which may be removed."""
    return folder.with_name(f"{folder.name}.lock")


def has_receiver(db: Path) -> bool:
    """Return whether a receiver writes to a database."""
    path = lock_of_receiver(folder_of(db))
    if not path.exists():
        return False
    held = lock_file(path)
    if held is not None:
        os.close(held)
    return held is None


def drain(
    store: Store,
    *,
    until_s: float | None = None,
    on_damage: Callable[[DamagedSegment], None] = _log_damage,
) -> Added:
    """Move the spool's segments into the database, one transaction each; return how many records were new.

    Stops after the segment during which `time.monotonic()` passes `until_s`. Damaged parts are kept in
    `*.rejected` beside the segment and reported to `on_damage`, which logs them by default; a segment that
    cannot be read is reported and stays. Raises StoreError if the database cannot be written.
    """
    total = Added(0, 0, 0)
    for segment in waiting(store.path):
        if (parts := _parts_of(segment, on_damage)) is None:
            continue
        added, refused = _load(store, [part for part in parts if isinstance(part, Frame)])
        if not store.in_place():
            raise StoreError(f"{store.path}: deleted or replaced while it was written")
        damaged = [part.content for part in parts if isinstance(part, Damage)]
        if damaged or refused:
            on_damage(_set_aside(segment, [*damaged, *refused]))
        segment.unlink(missing_ok=True)
        total = Added(*map(sum, zip(total, added, strict=True)))
        if until_s is not None and time.monotonic() >= until_s:
            break
    return total


def read_segment(
    segment: Path, on_damage: Callable[[DamagedSegment], None] = _log_damage
) -> dict[Table, list[na.Array]] | None:
    """Return the rows of a sealed segment, None if it cannot be read now; keep damaged bytes beside it."""
    if (parts := _parts_of(segment, on_damage)) is None:
        return None
    if damaged := [part.content for part in parts if isinstance(part, Damage)]:
        on_damage(_set_aside(segment, damaged))
    return _tables(part for part in parts if isinstance(part, Frame))


def _parts_of(segment: Path, on_damage: Callable[[DamagedSegment], None]) -> list[Frame | Damage] | None:
    """Return the parts of a segment; None if it cannot be read now, or another process has loaded it."""
    try:
        return list(read_frames(segment))
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f"{segment}: cannot be read, and stays in the spool: {error.strerror}"
        on_damage(DamagedSegment(0, segment, message))
        return None


def _load(store: Store, frames: Sequence[Frame]) -> tuple[Added, list[bytes]]:
    """Write the rows of frames; return how many were new, and the frames that the database refuses."""
    try:
        return store.add_rows(_tables(frames)), []
    except StoreError as error:
        if not isinstance(error.__cause__, _REFUSED):
            raise
        if len(frames) == 1:
            return Added(0, 0, 0), [to_frames({frame.table: frame.rows}) for frame in frames]
    total, refused = Added(0, 0, 0), []
    for frame in frames:
        added, more = _load(store, [frame])
        total = Added(*map(sum, zip(total, added, strict=True)))
        refused += more
    return total, refused


def _set_aside(segment: Path, parts: Sequence[bytes]) -> DamagedSegment:
    """Keep the damaged parts of a segment beside it."""
    kept_in = segment.with_suffix(".rejected")
    content = b"".join(parts)
    file = os.open(kept_in, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, file_mode())
    try:
        _write_at(file, content, 0)
    finally:
        os.close(file)
    message = (
        f"{segment}: {len(content)} bytes in {len(parts)} places are damaged and were not loaded: "
        f"they are kept in {kept_in.name}"
    )
    return DamagedSegment(len(content), kept_in, message)


def _tables(frames: Iterable[Frame]) -> dict[Table, list[na.Array]]:
    tables: dict[Table, list[na.Array]] = {}
    for table, rows in frames:
        tables.setdefault(table, []).append(rows)
    return tables


def _write_at(file: int, content: bytes, position: int, *, sync: bool = True) -> None:
    """Write bytes at a position and, with `sync`, wait until they are on disk."""
    rest = memoryview(content)
    os.lseek(file, position, os.SEEK_SET)
    while rest:
        rest = rest[os.write(file, rest) :]
    if sync:
        os.fsync(file)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # only POSIX systems can sync a folder
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
