"""Limits of a request, and the rejections of requests that exceed them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from grpc import StatusCode

from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.span import LogRecord, Span

_MIB = 2**20
_GZIP_MEMBERS = 1_000  # exporters send one
_GZIP_CHUNK = 2**14


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum of each resource.

    OpenTelemetry's SDK sends 512 spans per request, its Collector 8,192; an agent's span has some kB.
    """

    body_bytes: int = 16 * _MIB  # as it was sent
    decompressed_bytes: int = 32 * _MIB
    records: int = 20_000  # spans or log records in a request
    value_chars: int = 4 * _MIB  # of one attribute's value, as JSON
    pending_bytes: int = 64 * _MIB  # bodies in memory, of all requests together
    spool_bytes: int = 1024 * _MIB  # on disk, and not yet in the database
    read_s: float = 30.0  # for a whole body to arrive
    headers_s: float = 10.0  # for a request's headers, from the opening of its connection or its first byte
    connections: int = 512  # at once, over HTTP and over gRPC each


class RejectedError(Exception):
    """A request that is rejected, with its status over HTTP and over gRPC."""

    def __init__(self, http: int, grpc: StatusCode, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.http = http
        self.grpc = grpc
        self.message = message
        self.retry_after_s = retry_after_s


def malformed(message: str) -> RejectedError:
    """Return the rejection of a body that cannot be read; the client must not send it again."""
    return RejectedError(400, StatusCode.INVALID_ARGUMENT, message)


def too_large(message: str) -> RejectedError:
    """Return the rejection of a body that is too large; the client must not send it again."""
    return RejectedError(413, StatusCode.INVALID_ARGUMENT, message)


def unavailable(message: str, retry_after_s: int) -> RejectedError:
    """Return the rejection of a request that the client may send again after some seconds."""
    return RejectedError(503, StatusCode.UNAVAILABLE, message, retry_after_s)


class MemoryBudget:
    """The bytes of request bodies in memory, of all requests together. Use it from one thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0

    @contextmanager
    def reservation(self) -> Iterator[Reservation]:
        """Return a reservation for one request, which is freed at the end of the block."""
        reservation = Reservation(self)
        try:
            yield reservation
        finally:
            self.used -= reservation.size

    def has_room(self, size: int) -> bool:
        """Return whether another `size` bytes fit. A single request always fits."""
        return not self.used or self.used + size <= self._limit


class Reservation:
    """The bytes that one request has in memory."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.size = 0

    def add(self, size: int) -> None:
        """Reserve more bytes; raise RejectedError if other requests use them."""
        if self._budget.used != self.size and not self._budget.has_room(size):
            raise unavailable("too many requests at once: send again in a second", 1)
        self._budget.used += size
        self.size += size


def unzipped(body: bytes, limit: int) -> bytes:
    """Return the content of a gzip body; raise RejectedError if it is broken or exceeds the limit."""
    whole = bytearray()
    position = members = 0
    try:
        while position < len(body):  # a gzip file may have several members
            if members == _GZIP_MEMBERS:
                raise malformed(f"the gzip body has more than {_GZIP_MEMBERS} members")
            members += 1
            stream = zlib.decompressobj(wbits=31)
            while not stream.eof:
                chunk = body[position : position + _GZIP_CHUNK]  # a member's end copies what is after it
                if not chunk:
                    raise malformed("the gzip body is cut short")
                whole += stream.decompress(chunk, limit + 1 - len(whole))
                if len(whole) > limit:
                    raise too_large(f"the body is more than {limit} bytes when it is decompressed")
                position += len(chunk) - len(stream.unused_data)
    except zlib.error as error:
        raise malformed(f"the body is not gzip: {error}") from None
    return bytes(whole)


def too_long(record: Span | LogRecord, limit: int) -> str | None:
    """Return why a record is rejected: its first text or value that exceeds the limit; None if none does."""
    for what, value in _values(record):
        if (size := _length(value)) > limit:
            return f"{what} is {size} characters; the limit is {limit}"
    return None


def _values(record: Span | LogRecord) -> Iterator[tuple[str, Any]]:
    """Yield the texts and values of a record, each with its name."""
    for field in (
        "name",
        "status_message",
        "trace_state",
        "event_name",
        "severity",
        "scope_name",
        "scope_version",
    ):
        yield f"the {field.replace('_', ' ')}", getattr(record, field, None)
    parts = [record.attributes, record.resource]
    if isinstance(record, Span):
        for event in record.events:
            yield "the name of an event", event["name"]
        parts += [part["attributes"] for part in (*record.events, *record.links)]
    else:
        parts.append({"body": record.body})
    for part in parts:
        for key, value in part.items():
            yield "a key", key
            yield f"the value of {key[:80]!r}", value


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return len(dumps(value)) if isinstance(value, list | dict) else 0
