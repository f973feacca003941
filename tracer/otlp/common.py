"""What both encodings of OTLP have in common: names, limits, and what is odd about a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from spangrade.tracer.span import Attributes, LogRecord, Problem, Span

Record = TypeVar("Record", Span, LogRecord)

# By their numbers. A span of no kind is internal: so says the protocol's own definition.
KINDS = ("INTERNAL", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
STATUSES = ("UNSET", "OK", "ERROR")

NESTING = 100  # levels of arrays and maps in a value: JSON writers and DuckDB stop at a few hundred
INT64 = range(-(2**63), 2**63)


class MalformedError(ValueError):
    """A record that cannot be read, and why."""


class Group(NamedTuple):
    """The records of one scope as they are encoded, where they stand, and what they share."""

    where: str
    records: Iterable[Any]
    resource: Attributes
    scope_name: str | None
    scope_version: str | None


def decoded(
    groups: Iterable[Group | Problem],
    decode: Callable[[Any, Group], Record],
    oddities: Callable[[Record], Iterable[str]],
) -> Iterator[Record | Problem]:
    """Yield the groups' records; one that cannot be decoded becomes a Problem, one that is odd gets one."""
    for group in groups:
        if isinstance(group, Problem):
            yield group
            continue
        for position, encoded in enumerate(group.records):
            try:
                record = decode(encoded, group)
            except MalformedError as error:
                yield Problem(f"{group.where}[{position}]", str(error))
                continue
            yield record
            for oddity in oddities(record):
                yield Problem(f"{group.where}[{position}]", oddity, dropped=False)


def checked_time(time: int, what: str) -> int:
    """Return a time in nanoseconds since the epoch; raises MalformedError if the store cannot hold it."""
    if 0 <= time < 2**63:
        return time
    raise MalformedError(f"{what} is {time}; right is nanoseconds since 1970, below 2^63")


def not_finite(number: float) -> str:
    """Return how JSON writes a number that it has no literal for: NaN, Infinity or -Infinity."""
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(number)]


def span_oddities(span: Span) -> Iterator[str]:
    """Yield what is odd about a span that is kept as it came."""
    if not span.start_ns:
        yield "the span has no start time; it is kept at 1970"
    if span.end_ns < span.start_ns:
        yield f"the span ends before it starts, by {span.start_ns - span.end_ns} ns; it is kept as it came"
    if span.parent_span_id == span.span_id:
        yield "the span is its own parent; it is kept as it came"


def log_oddities(log: LogRecord) -> Iterator[str]:
    """Yield what is odd about a log record that is kept as it came."""
    if not log.time_ns:
        yield "the log record has no time; it is kept at 1970"
