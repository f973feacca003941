"""Parts of recorded files, each read by itself, in any process; items in groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import nanoarrow as na

from spangrade.evaluator.derive.settings import Settings
from spangrade.evaluator.derive.sync.sessions import BuiltPart, build_part
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.files import Part, parts, read_part
from spangrade.tracer.span import LogRecord, Problem, Span
from spangrade.tracer.store.arrow import Table, batches, distinct, table_rows

Item = TypeVar("Item")

PART = 8_000_000  # bytes; about 4,000 spans with messages


class ReadBatch(NamedTuple):
    """The rows of some records of files.

    `repeated` is the number of records that are among them already, `part` what was built of them.
    """

    tables: dict[Table, na.Array]
    rows: int
    traces: frozenset[str]
    repeated: int
    problems: list[Problem]
    files_lost: int
    part: BuiltPart | None


# A group of parts, and the settings by which sessions are built of them; None if none are.
ReadJob = tuple[Sequence[Part], Settings | None]


def part_groups(paths: Iterable[Path]) -> Iterator[list[Part]]:
    """Yield the parts of files in groups of about `PART` bytes."""
    return grouped((part for path in paths for part in parts(path, PART)), lambda part: part.size, PART)


def grouped(items: Iterable[Item], size_of: Callable[[Item], float], size: float) -> Iterator[list[Item]]:
    """Yield items in order, in groups that end with the item that reaches the size."""
    group: list[Item] = []
    grown = 0.0
    for item in items:
        group.append(item)
        grown += size_of(item)
        if grown >= size:
            yield group
            group, grown = [], 0.0
    if group:
        yield group


def read_parts(job: ReadJob) -> Iterator[ReadBatch]:
    """Read a group of parts; yield their records in batches."""
    group, settings = job
    problems: list[Problem] = []
    files_lost = 0

    def records() -> Iterator[Span | LogRecord]:
        nonlocal files_lost
        for part in group:
            try:
                for record in read_part(part):
                    if isinstance(record, Problem):
                        problems.append(record)
                    else:
                        yield record
            except InputError as error:
                files_lost += 1
                problems.append(Problem(str(part.path), str(error).removeprefix(f"{part.path}: ")))

    for batch in batches(records()):
        yield _read(batch, problems, files_lost, settings)
        problems, files_lost = [], 0
    if problems or files_lost:
        yield _read([], problems, files_lost, None)


def read_parts_at_once(job: ReadJob) -> list[ReadBatch]:
    """Read a group of parts, for another process."""
    return list(read_parts(job))


def _read(
    records: Sequence[Span | LogRecord],
    problems: list[Problem],
    files_lost: int,
    settings: Settings | None,
) -> ReadBatch:
    spans, logs = distinct(records)
    tables = table_rows(spans, logs)
    return ReadBatch(
        tables,
        len(spans) + len(logs),
        frozenset(record.trace_id for record in records if record.trace_id is not None),
        len(records) - len(spans) - len(logs),
        problems,
        files_lost,
        None if settings is None else build_part(spans, logs, settings),
    )


def in_batches(items: Iterable[Item], size_of: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Yield items in their order, in lists of at most this size together, or of one item."""
    batch: list[Item] = []
    size = 0
    for item in items:
        added = size_of(item)
        if batch and size + added > most:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += added
    if batch:
        yield batch
