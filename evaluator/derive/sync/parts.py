"""Parts of recorded files, each read by itself, in any process: their rows, and what their spans come to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import nanoarrow as na

from spangrade.evaluator.derive.settings import Settings
from spangrade.evaluator.derive.sync.portion import Portion, compact, portion_of
from spangrade.tracer.errors import InputError
from spangrade.tracer.files import Part, parts, read_part
from spangrade.tracer.span import LogRecord, Problem, Span
from spangrade.tracer.store.arrow import Table, batches, distinct, table_rows

Item = TypeVar("Item")

PART = 8_000_000  # bytes; about 4,000 spans with messages


class ReadPart(NamedTuple):
    """What reading a part comes to: its rows, and its portion.

    `repeated` is the number of records that are in the part already.
    """

    tables: dict[Table, na.Array]
    rows: int
    portion: Portion
    traces: frozenset[str]
    repeated: int
    problems: list[Problem]
    files_lost: int


# Parts, the settings of the database, and the sessions that need not be built.
Job = tuple[Sequence[Part], Settings, frozenset[str]]


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


def read_parts(job: Job) -> Iterator[ReadPart]:
    """Read a group of parts; yield what each batch of their records comes to."""
    group, settings, without = job
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
        yield _read(batch, settings, without, problems, files_lost)
        problems, files_lost = [], 0
    if problems or files_lost:
        yield _read([], settings, without, problems, files_lost)


def read_parts_at_once(job: Job) -> list[ReadPart]:
    """Read a group of parts, for another process."""
    without = job[2]
    return [part._replace(portion=compact(part.portion, without)) for part in read_parts(job)]


def _read(
    records: Sequence[Span | LogRecord],
    settings: Settings,
    without: frozenset[str],
    problems: list[Problem],
    files_lost: int,
) -> ReadPart:
    spans, logs = distinct(records)
    tables = table_rows(spans, logs)
    return ReadPart(
        tables,
        len(spans) + len(logs),
        portion_of([spans], logs, settings, without),
        frozenset(record.trace_id for record in records if record.trace_id is not None),
        len(records) - len(spans) - len(logs),
        problems,
        files_lost,
    )
