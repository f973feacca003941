"""Limits of a request, and the rejections of requests that exceed them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from grpc import StatusCode

from spangrade.tracer.canonical_json import dumps
from spangrade.tracer.span import LogRecord, Span

_MIB = 2**20


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
    rest = body
    try:
        while rest:  # a gzip file may have several members
            stream = zlib.decompressobj(wbits=31)
            whole += stream.decompress(rest, limit + 1 - len(whole))
            if len(whole) > limit:
                raise too_large(f"the body is more than {limit} bytes when it is decompressed")
            if not stream.eof:
                raise malformed("the gzip body is cut short")
            rest = stream.unused_data
    except zlib.error as error:
        raise malformed(f"the body is not gzip: {error}") from None
    return bytes(whole)


def too_long(record: Span | LogRecord, limit: int) -> str | None:
    """Return why a record is rejected, by the key of a value longer than the limit; None if it is not."""
    if isinstance(record, Span):
        parts = [record.attributes, record.resource]
        parts += [part["attributes"] for part in (*record.events, *record.links)]
    else:
        parts = [record.attributes, record.resource, {"body": record.body}]
    for part in parts:
        for key, value in part.items():
            if (size := _length(value)) > limit:
                return f"the value of {key[:80]!r} is {size} characters; the limit is {limit}"
    return None


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return len(dumps(value)) if isinstance(value, list | dict) else 0
