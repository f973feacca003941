"""Read files of recorded spans and logs; the format is recognized by the content, not by the name."""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from io import BufferedReader, BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import orjson

from spangrade.tracer.errors import InputError
from spangrade.tracer.otlp import json as otlp_json
from spangrade.tracer.plugins import load_plugins
from spangrade.tracer.span import LogRecord, Problem, Span

_OTLP_KEYS = frozenset({"resourceSpans", "resourceLogs", "resource_spans", "resource_logs", "batches"})
_BOM = b"\xef\xbb\xbf"
_WIDE = re.compile(rb"\xff\xfe|\xfe\xff|\x00{0,3}[\[{]\x00|\x00{1,3}(\xfe\xff|[\[{])")
# A protobuf message may begin with a line feed, and "{" may be a length; but it does not continue like JSON.
_JSON = re.compile(rb'(?!\n)\s*[\[{]|\n\s*(\{\s*("[^\x00-\x1f]|\}|$)|\[\s*([\[{\]"]|$))')
_JSON_LIST = re.compile(rb"\s*\[")
_CONTROL = re.compile(rb"[\x00-\x08]")
_MAX_MESSAGE = 2**31 - 1  # protobuf's own limit, in bytes
_BROKEN_GZIP = (EOFError, zlib.error, gzip.BadGzipFile)


@runtime_checkable
class Reader(Protocol):
    """A format of recorded spans, registered as an entry point of the group `spangrade.readers`."""

    def __call__(self, document: Any, /) -> Iterator[Span | LogRecord | Problem] | None:
        """Return a document's records, or None if it is of another format.

        The document is a JSON value (a whole file, or one line of JSON Lines), or the bytes of a file that is
        not JSON. A Problem's `where` is the position in the document.
        """


def read(path: Path) -> Iterator[Span | LogRecord | Problem]:
    """Yield the records of a file, and a Problem for each part that cannot be read or is implausible.

    JSON Lines are read one by one; a single JSON document and protobuf are loaded whole. Raises InputError,
    on the first iteration, if the file cannot be used at all. A Problem's `where` is `path:line position` in
    JSON Lines, `path position` in a document.
    """
    try:
        with path.open("rb") as raw:
            zipped = raw.peek(2)[:2] == b"\x1f\x8b"
            yield from _read(gzip.GzipFile(fileobj=raw) if zipped else raw, path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: a directory; expected a file of recorded spans") from None
    except _BROKEN_GZIP as error:
        raise InputError(f"{path}: a broken gzip file ({error}); expected a complete one") from error
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error


class Part(NamedTuple):
    """A part of a file that can be read by itself: the file or, of JSON Lines, lines from line `first` on."""

    path: Path
    size: int  # bytes
    first: int = 1
    lines: bytes | None = None


def parts(path: Path, size: int) -> Iterator[Part]:
    """Yield a file's parts. JSON Lines are cut after the line that reaches `size` bytes; others are one part.

    Raises nothing: `read_part` does for a file that cannot be used.
    """
    try:
        with path.open("rb") as file:
            opening = list(_opening(file)) if _JSON.match(file.peek(512)) else []
            if not _lines_follow(_filled(opening)):
                yield Part(path, os.fstat(file.fileno()).st_size)
                return
            first, lines, length = 1, [], 0
            for line in chain(opening, file):
                lines.append(line)
                length += len(line)
                if length >= size:
                    yield Part(path, length, first, b"".join(lines))
                    first, lines, length = first + len(lines), [], 0
            if lines:
                yield Part(path, length, first, b"".join(lines))
    except OSError:
        yield Part(path, 0)


def read_part(part: Part) -> Iterator[Span | LogRecord | Problem]:
    """Yield the records of a part, as `read` those of a file."""
    if part.lines is None:
        return read(part.path)
    return _lines(BytesIO(part.lines), part.path, part.first)


def read_otlp(document: Any) -> Iterator[Span | LogRecord | Problem] | None:
    """Read OTLP: an export request for spans or logs, as JSON or as the bytes of its protobuf message.

    A trace as the API of Tempo or Jaeger returns it is one, too: under the key `trace` in version 2 of
    Tempo's, under `result` in version 3 of Jaeger's.
    """
    if isinstance(document, bytes):
        from spangrade.tracer.otlp import lenient
        from spangrade.tracer.otlp import protobuf as otlp_proto

        if message := otlp_proto.parse(document):
            return otlp_proto.decode(message)
        table = lenient.table_of(document)
        return lenient.decode(document, table) if table else None
    if isinstance(document, dict):
        for request in (document, document.get("trace"), document.get("result")):
            if isinstance(request, dict) and not _OTLP_KEYS.isdisjoint(request):
                return otlp_json.decode(request)
    return None


@cache
def _readers() -> dict[str, Reader]:
    return load_plugins("spangrade.readers", Reader)


def _expected() -> str:
    return f"expected one of the formats {', '.join(_readers())}"


def _records(document: Any) -> Iterator[Span | LogRecord | Problem] | None:
    return next((found for reader in _readers().values() if (found := reader(document)) is not None), None)


def _read(stream: BufferedReader | gzip.GzipFile, path: Path) -> Iterator[Span | LogRecord | Problem]:
    head = stream.peek(512)
    if head.startswith(_BOM):
        head = head[len(stream.read(len(_BOM))) :]
    if not head:
        raise InputError(f"{path}: an empty file; {_expected()}")
    if _WIDE.match(head):
        raise InputError(f"{path}: UTF-16 or UTF-32 text; expected UTF-8")
    if not _JSON.match(head):
        yield from _whole(stream.read(_MAX_MESSAGE), path)
        return
    opening = list(_opening(stream))
    filled = _filled(opening)
    if _lines_follow(filled):
        yield from _lines(chain(opening, stream), path)
        return
    text = b"".join(opening) + stream.read()
    try:
        document = _parse(text)
    except _NotJSONError as error:
        if len(filled) == 1 or error.offset > sum(map(len, opening[:-1])):
            raise InputError(f"{path}: {error}; expected a whole JSON document, or one per line") from None
        yield from _lines(BytesIO(text), path)  # only line 1 is broken: the others may be valid
    else:
        yield from _whole(document, path)


def _whole(document: Any, path: Path) -> Iterator[Span | LogRecord | Problem]:
    records = _records(document)
    if records is None:
        raise InputError(f"{path}: {_described(document)}; {_expected()}")
    yield from _placed(records, str(path))


def _opening(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines up to and including the second that is not blank."""
    filled = 0
    for line in lines:
        yield line
        filled += not line.isspace()
        if filled == 2:
            return


def _filled(lines: Iterable[bytes]) -> list[bytes]:
    return [line for line in lines if not line.isspace()]


def _lines_follow(opening: Sequence[bytes]) -> bool:
    """Return whether a file that begins with these lines is JSON Lines, not one long document."""
    if len(opening) < 2:
        return False
    try:
        _parse(opening[0])
    except _NotJSONError:
        try:
            return _records(_parse(opening[1])) is not None
        except _NotJSONError:
            return False
    return True


def _lines(lines: Iterable[bytes], path: Path, first: int = 1) -> Iterator[Span | LogRecord | Problem]:
    number = first - 1
    try:
        for number, line in enumerate(lines, first):
            if line.isspace():
                continue
            where = f"{path}:{number}"
            try:
                document = _parse(line)
            except _NotJSONError as error:
                yield Problem(where, f"{error}; expected one JSON document per line")
                continue
            records = _records(document)
            if records is None:
                yield Problem(where, f"{_described(document)}; {_expected()}")
            else:
                yield from _placed(records, where)
    except _BROKEN_GZIP as error:
        yield Problem(f"{path}:{number + 1}", f"a broken gzip file ({error}); expected a complete one")


def _placed(
    records: Iterator[Span | LogRecord | Problem], where: str
) -> Iterator[Span | LogRecord | Problem]:
    for record in records:
        if isinstance(record, Problem):
            yield record._replace(where=f"{where} {record.where}".rstrip())
        else:
            yield record


class _NotJSONError(ValueError):
    """Text that is not JSON: the reason, and the byte where it stops being JSON."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


def _parse(text: bytes) -> Any:
    # orjson reads integers beyond 64 bits, such as the trace ids in ADK's lists of spans, as floats; and it
    # rejects NaN and half surrogate pairs, which Python's json reads because it writes them.
    if not _JSON_LIST.match(text):
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(text)
    try:
        return json.loads(text.decode())
    except UnicodeDecodeError as error:
        raise _NotJSONError(f"not UTF-8 at byte {error.start}", error.start) from None
    except json.JSONDecodeError as error:
        offset = len(error.doc[: error.pos].encode())
        if error.msg.startswith("Unterminated string") or not error.doc[error.pos :].strip():
            raise _NotJSONError(f"JSON cut short at byte {len(text)}", len(text)) from None
        reason = error.msg.lower().removesuffix(" at").rstrip(": ")
        raise _NotJSONError(f"not JSON at byte {offset}: {reason}", offset) from None
    except RecursionError:
        raise _NotJSONError("JSON nested too deeply", len(text)) from None
    except ValueError as error:  # an integer of thousands of digits
        raise _NotJSONError(f"JSON with a number that is too long: {error}", len(text)) from None


def _described(document: Any) -> str:
    """Return a description of a document, for the message that rejects it."""
    match document:
        case dict():
            keys = ", ".join(ascii(key[:40])[1:-1] for key in list(document)[:4])
            return f"a JSON object with the keys {keys}" if document else "an empty JSON object"
        case [dict() as first, *_]:
            return f"a JSON list; its first item is {_described(first)}"
        case list():
            return "a JSON list of something else" if document else "an empty JSON list"
        case bytes():
            return _described_bytes(document)
        case _:
            return "a single JSON value"


def _described_bytes(content: bytes) -> str:
    if content[8:12] == b"DUCK":
        return "a DuckDB database"
    with suppress(UnicodeDecodeError):
        if not _CONTROL.search(content[:512]) and content.decode():
            return "text without a JSON object or list"
    return "binary content of another kind"
