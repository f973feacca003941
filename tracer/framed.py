"""Files of the OpenTelemetry Collector's file exporter with `format: proto` or `compression: zstd`.

Each message is preceded by its length, an unsigned integer of 32 bits, and may be compressed by itself:
https://github.com/open-telemetry/opentelemetry-collector-contrib/tree/main/exporter/fileexporter#file-format
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from io import BufferedReader

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ZSTD = b"\x28\xb5\x2f\xfd"
MAX_MESSAGE = 2**31 - 1  # protobuf's own limit, in bytes
_LENGTH = 4
_MOST_LIKELY = 10  # the first byte of a plain message; no message has a length that begins with more


class TornMessageError(ValueError):
    """A message that cannot be read; the message says why."""


def is_framed(head: bytes) -> bool:
    """Return whether a file that begins like this has messages with their lengths, of spans or logs."""
    if len(head) <= _LENGTH or head[0] >= _MOST_LIKELY or not any(head[:_LENGTH]):
        return False
    return head[_LENGTH] == _MOST_LIKELY or head[_LENGTH:].startswith(ZSTD)


def messages(read: Callable[[int], bytes]) -> Iterator[bytes | TornMessageError]:
    """Yield the messages, decompressed, and an error for one that cannot be read.

    `read` returns the number of bytes that it is given.
    """
    while prefix := read(_LENGTH):
        length = int.from_bytes(prefix, "big")
        message = read(length)
        if len(prefix) < _LENGTH or len(message) < length:
            yield TornMessageError(f"cut short: expected {length} bytes, found {len(message)}")
            return
        if not message.startswith(ZSTD):
            yield message
            continue
        try:
            yield _decompressed(message)
        except (zstd.ZstdError, TornMessageError) as error:
            yield TornMessageError(f"broken zstd ({error})")


def open_zstd(file: BufferedReader) -> zstd.ZstdFile:
    """Return the content of a compressed file."""
    return zstd.ZstdFile(file)


BROKEN_ZSTD = zstd.ZstdError


def _decompressed(message: bytes) -> bytes:
    decompressor = zstd.ZstdDecompressor()
    content = decompressor.decompress(message, MAX_MESSAGE)
    if not decompressor.eof:
        raise TornMessageError(f"not complete, or more than {MAX_MESSAGE} bytes")
    return content
