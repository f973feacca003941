"""What a request may cost, and the one way to refuse it."""

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
    """The most that is taken of each thing.

    OpenTelemetry's SDK sends 512 spans a request, its Collector 8,192; a span of an agent is some kB.
    """

    body_bytes: int = 16 * _MIB  # as it was sent
    decompressed_bytes: int = 32 * _MIB
    records: int = 20_000  # spans or log records in a request
    value_chars: int = 4 * _MIB  # of one attribute's value, as JSON
    pending_bytes: int = 64 * _MIB  # bodies in memory, of all requests together
    spool_bytes: int = 1024 * _MIB  # on disk, and not yet in the database
    read_s: float = 30.0  # for a whole body to arrive


class Refusal(Exception):  # noqa: N818 (it is an answer)
    """A request that is not taken: the answer for it over HTTP and over gRPC."""

    def __init__(self, http: int, grpc: StatusCode, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.http = http
        self.grpc = grpc
        self.message = message
        self.retry_after_s = retry_after_s


def malformed(message: str) -> Refusal:
    """Return the refusal of a body that cannot be read; it is not to be sent again."""
    return Refusal(400, StatusCode.INVALID_ARGUMENT, message)


def too_large(message: str) -> Refusal:
    """Return the refusal of a body that is too large; it is not to be sent again."""
    return Refusal(413, StatusCode.INVALID_ARGUMENT, message)


def busy(message: str, retry_after_s: int) -> Refusal:
    """Return the refusal for now: the same request is welcome again in a while."""
    return Refusal(503, StatusCode.UNAVAILABLE, message, retry_after_s)


class Memory:
    """How much of the bodies of all requests is in memory. For one thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.taken = 0

    @contextmanager
    def share(self) -> Iterator[Share]:
        """Return one request's share, given back at the end."""
        share = Share(self)
        try:
            yield share
        finally:
            self.taken -= share.size

    def room_for(self, size: int) -> bool:
        """Tell whether so much more may be taken. A single request always finds room."""
        return not self.taken or self.taken + size <= self._limit


class Share:
    """What one request has in memory."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.size = 0

    def take(self, size: int) -> None:
        """Take so much more; raises Refusal where others have it."""
        if self._memory.taken != self.size and not self._memory.room_for(size):
            raise busy("too many requests at once: send again in a second", 1)
        self._memory.taken += size
        self.size += size


def unzipped(body: bytes, limit: int) -> bytes:
    """Return what a gzip body holds; raises Refusal if it is broken or holds more than the limit."""
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
    """Return why a record is refused, or None: the key of a value longer than the limit."""
    if isinstance(record, Span):
        parts = [record.attributes, record.resource]
        parts += [part["attributes"] for part in (*record.events, *record.links)]
    else:
        parts = [record.attributes, record.resource, {"body": record.body}]
    for part in parts:
        for key, value in part.items():
            if (size := _length(value)) > limit:
                return f"the value of {key[:80]!r} is {size} characters: at most {limit} are taken"
    return None


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return len(dumps(value)) if isinstance(value, list | dict) else 0
