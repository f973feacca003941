"""Shared by both encodings of OTLP: names, limits, and checks of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from spangrade.tracer.span import Attributes, LogRecord, Problem, Span

Record = TypeVar("Record", Span, LogRecord)

# By number. The protocol defines that a span of unspecified kind is internal.
KINDS = ("INTERNAL", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
STATUSES = ("UNSET", "OK", "ERROR")

NESTING = 100  # levels of arrays and maps in a value; JSON writers and DuckDB fail at a few hundred
INT64 = range(-(2**63), 2**63)
NONE: list[Attributes] = []  # the events and links of most spans: one object is written as JSON once


class MalformedError(ValueError):
    """A record that cannot be read; the message says why."""


class ScopeGroup(NamedTuple):
    """The encoded records of one scope, their position in the document, their resource and scope."""

    where: str
    records: Iterable[Any]
    resource: Attributes
    scope_name: str | None
    scope_version: str | None


def decoded(
    groups: Iterable[ScopeGroup | Problem],
    decode: Callable[[Any, ScopeGroup], Record],
    warnings: Callable[[Record], Iterable[str]],
) -> Iterator[Record | Problem]:
    """Yield the records; a Problem replaces one that cannot be decoded, and follows an implausible one."""
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
            for warning in warnings(record):
                yield Problem(f"{group.where}[{position}]", warning, dropped=False)


def checked_time(time: int, what: str) -> int:
    """Return a time in nanoseconds since 1970; raise MalformedError if it does not fit into the store."""
    if 0 <= time < 2**63:
        return time
    raise MalformedError(f"{what} is {time}; expected nanoseconds since 1970, below 2^63")


def not_finite(number: float) -> str:
    """Return the text that stands for a number without a JSON literal: NaN, Infinity or -Infinity."""
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(number)]


def span_warnings(span: Span) -> Sequence[str]:
    """Return warnings about implausible values in a span, which is stored as it came."""
    if 0 < span.start_ns <= span.end_ns and span.parent_span_id != span.span_id:
        return ()
    warnings = []
    if not span.start_ns:
        warnings.append("the span has no start time; it is kept at 1970")
    if span.end_ns < span.start_ns:
        early_ns = span.start_ns - span.end_ns
        warnings.append(f"the span ends before it starts, by {early_ns} ns; it is kept as it came")
    if span.parent_span_id == span.span_id:
        warnings.append("the span is its own parent; it is kept as it came")
    return warnings


def log_warnings(log: LogRecord) -> Sequence[str]:
    """Return warnings about implausible values in a log record, which is stored as it came."""
    return () if log.time_ns else ("the log record has no time; it is kept at 1970",)
