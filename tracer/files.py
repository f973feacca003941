"""Read files of recorded spans and logs; the format is recognized by the content, not by the name.

The file exporter of the OpenTelemetry Collector frames messages with `format: proto` or `compression: zstd`:
each is preceded by its length, an unsigned integer of 32 bits, and may be compressed by itself:
https://github.com/open-telemetry/opentelemetry-collector-contrib/tree/main/exporter/fileexporter#file-format
"""

from __future__ import annotations

import gzip
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from io import BufferedReader, BytesIO
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import orjson

from spangrade.tracer import tables
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.json_text import (
    BadItem,
    FurtherTextError,
    NextDocuments,
    NextLines,
    NotJSONError,
    documents,
    has_items,
    parse,
    portions,
)
from spangrade.tracer.otlp import json as otlp_json
from spangrade.tracer.readers import Records, expected, gathered, listed, placed, printed, records_in, refusal
from spangrade.tracer.span import Problem

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_OTLP_KEYS = frozenset({"resourceSpans", "resourceLogs", "resource_spans", "resource_logs", "batches"})
_BOM = b"\xef\xbb\xbf"
_WIDE = re.compile(rb"\xff\xfe|\xfe\xff|\x00{0,3}[\[{]\x00|\x00{1,3}(\xfe\xff|[\[{])")
# A protobuf message may begin with a line feed, and "{" may be a length; but it does not continue like JSON.
_JSON = re.compile(rb'(?!\n)\s*[\[{]|\n\s*(\{\s*("[^\x00-\x1f]|\}|$)|\[\s*([\[{\]"]|$))')
_SEPARATOR = b"\x1e"  # before each document of a JSON text sequence: RFC 7464
_OPEN, _CLOSE, _EMPTY = (b"{", b"["), (b"}", b"]"), (b"{}", b"[]")
_GZIP = b"\x1f\x8b"
_MAX_LINE = 1 << 20  # bytes of the names of a CSV file's columns
_BUFFER = 1 << 20  # bytes; lines of traces are longer than Python's own buffer
_WHOLE = 1 << 23  # bytes of a JSON document that is read at once; a longer one is read in portions
_LONGEST = 1 << 28  # bytes of a line or of a text that is not JSON: more is refused
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, zstd.ZstdError)
ZSTD = b"\x28\xb5\x2f\xfd"
MAX_MESSAGE = 2**31 - 1  # protobuf's own limit, in bytes
_PREFIX = 4
_MOST_LIKELY = 10  # the first byte of a plain message; no message has a length that begins with more


def read(path: Path) -> Records:
    """Yield the records of a file, and a Problem for each part that cannot be read or is implausible.

    JSON Lines, messages and rows are read one by one, a long list in portions; another JSON document and a
    single protobuf message are loaded whole. Raises InputError, on the first iteration, if the file cannot be
    used at all. A Problem's `where` is `path:line position` in JSON Lines, `path position` in a document.
    """
    try:
        with path.open("rb") as raw:
            head = raw.peek(512)
            if tables.is_parquet(head):
                yield from _tables(tables.read_parquet(path), path, "a Parquet file")
            elif tables.is_duckdb(head):
                yield from _tables(tables.read_duckdb(path), path, "a DuckDB database")
            else:
                yield from _read(_uncompressed(raw), path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: a directory; expected a file of recorded spans") from None
    except _BROKEN as error:
        raise InputError(f"{path}: {_broken(error)}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error


class Part(NamedTuple):
    """A part of a file that can be read by itself: the file or, of JSON Lines, lines from line `first` on."""

    path: Path
    size: int  # bytes
    first: int = 1
    lines: Sequence[bytes] | None = None


def parts(path: Path, size: int) -> Iterator[Part]:
    """Yield a file's parts. JSON Lines are cut after the line that exceeds `size` bytes; others are one part.

    Raises nothing: `read_part` does for a file that cannot be used.
    """
    try:
        with BufferedReader(path.open("rb", 0), _BUFFER) as file:
            opening = list(_opening(file)) if _JSON.match(file.peek(512)) else []
            if not _lines_follow(filled := _filled(opening)) or _belong_together(filled):
                yield Part(path, os.fstat(file.fileno()).st_size)
                return
            first, lines = 1, opening
            if (missing := size - sum(map(len, opening))) > 0:
                lines += file.readlines(missing)
            while lines:
                yield Part(path, sum(map(len, lines)), first, lines)
                first += len(lines)
                lines = file.readlines(size)
    except OSError:
        yield Part(path, 0)


def read_part(part: Part) -> Records:
    """Yield the records of a part, as `read` those of a file."""
    if part.lines is None:
        return read(part.path)
    return _lines(part.lines, part.path, part.first)


def read_otlp(document: Any, not_utf_8: str | None = None) -> Records | None:
    """Read OTLP: an export request for spans or logs, as JSON or as the bytes of its protobuf message.

    A trace as the API of Tempo or Jaeger returns it is one, too: under the key `trace` in version 2 of
    Tempo's, under `result` in version 3 of Jaeger's. A record with the character `not_utf_8`, given by
    `otlp.json.loads`, cannot be read.
    """
    if isinstance(document, bytes):
        from spangrade.tracer.otlp import protobuf as otlp_proto

        if message := otlp_proto.parse(document):
            return otlp_proto.decode(message)
        table = otlp_proto.table_of(document)
        return otlp_proto.decode_leniently(document, table) if table else None
    if isinstance(document, dict):
        for request in (document, document.get("trace"), document.get("result")):
            if isinstance(request, dict) and not _OTLP_KEYS.isdisjoint(request):
                return otlp_json.decode(request, not_utf_8)
    return None


def _records_of(text: bytes) -> tuple[Any, Records | None]:
    """Return the document that a text is, and its records. Raises NotJSONError.

    In an OTLP request, bytes that are not UTF-8 lose only their record.
    """
    try:
        document = parse(text)
    except NotJSONError:
        with suppress(orjson.JSONDecodeError):
            document, mark = otlp_json.loads(text)
            if mark is not None and (records := read_otlp(document, mark)) is not None:
                kept = list(records)
                if not all(isinstance(record, Problem) for record in kept):
                    return document, iter(kept)
        raise
    return document, records_in(document)


def _uncompressed(file: BufferedReader) -> BufferedReader:
    head = file.peek(4)
    if head.startswith(_GZIP):
        return cast("BufferedReader", gzip.GzipFile(fileobj=file))
    return cast("BufferedReader", zstd.ZstdFile(file)) if head.startswith(ZSTD) else file


def _broken(error: Exception) -> str:
    kind = "zstd" if isinstance(error, zstd.ZstdError) else "gzip"
    return f"a broken {kind} file ({error}); expected a complete one"


def _read(stream: BufferedReader, path: Path) -> Records:
    head = stream.peek(512)
    if head.startswith(_BOM):
        head = head[len(stream.read(len(_BOM))) :]
    if not head:
        raise InputError(f"{path}: an empty file; {expected()}")
    if is_framed(head):
        return _messages(stream, path)
    if _WIDE.match(head):
        raise InputError(f"{path}: UTF-16 or UTF-32 text; expected UTF-8")
    if head.lstrip().startswith(_SEPARATOR):
        return _documents(b"", stream, str(path), 1)
    return _json(stream, path) if _JSON.match(head) else _not_json(stream, path)


def _json(stream: BufferedReader, path: Path) -> Records:
    opening = list(_opening(stream))
    filled = _filled(opening)
    if _lines_follow(filled):
        lines = chain(opening, _bounded_lines(stream))
        yield from _gathered(lines, path) if _belong_together(filled) else _lines(lines, path)
        return
    text = b"".join(opening)
    text += stream.read(max(_WHOLE - len(text), 0))
    if len(text) >= _WHOLE and has_items(text):
        yield from _portions(text, stream, path)
        return
    text += stream.read()
    try:
        document, records = _records_of(text)
    except FurtherTextError:
        yield from _documents(text, stream, str(path), 1)
    except NotJSONError as error:
        if len(filled) > 1 and error.offset <= sum(map(len, opening[:-1])):
            yield from _lines(BytesIO(text), path)  # only line 1 is broken: the others may be valid
            return
        wrong = InputError(
            f"{path}: {printed(text) or f'{error}; expected a whole JSON document, or one per line'}"
        )
        yield from _unless_empty(_portions(text, stream, path), wrong)
    else:
        yield from _whole(document, records, path)


def _unless_empty(records: Records, wrong: InputError) -> Records:
    """Yield the readable records of a document that is not JSON; raise the error if there are none."""
    kept: list[Problem] = []
    with suppress(InputError):
        for record in records:
            if not isinstance(record, Problem):
                yield from (*kept, record)
                yield from records
                return
            kept.append(record)
    raise wrong


def _portions(text: bytes, stream: BufferedReader, path: Path) -> Records:
    """Yield the records of a document that begins with this text, in portions of its items."""
    buffered = BytesIO(text)
    started = False
    for portion in portions(lambda size: buffered.read(size) or stream.read(size)):
        if isinstance(portion, NextLines):
            beginning = portion.text + buffered.read() + stream.readline()
            yield from _lines(chain(BytesIO(beginning), _bounded_lines(stream)), path, 2)
            continue
        if isinstance(portion, NextDocuments):
            yield from _documents(portion.text + buffered.read(), stream, str(path), 2)
            continue
        if isinstance(portion, BadItem):
            yield Problem(f"{path} {portion.where}".rstrip(), portion.reason)
            continue
        records = records_in(portion.document)
        if records is not None:
            started = True
            yield from placed(records, str(path), portion.first or 0)
        elif portion.first is None:
            continue  # such as the number of traces
        elif started:
            yield Problem(f"{path} [{portion.first}]", refusal(portion.document))
        else:
            raise InputError(f"{path}: {refusal(portion.document)}")


def _documents(text: bytes, stream: IO[bytes], where: str, first: int) -> Records:
    """Yield the records of documents that follow one another, the first of which is document `first`.

    Raises InputError if no reader takes document 1. All are one document where the first says so.
    """
    buffered = BytesIO(text)
    together: list[Any] = []
    left = _LONGEST
    for number, found in enumerate(
        documents(lambda size: buffered.read(size) or stream.read(size), _LONGEST), first
    ):
        place = f"{where} document {number}"
        if isinstance(found, BadItem):
            yield Problem(place, f"{found.reason}; neither it nor what follows is read")
            continue
        try:
            document, records = _records_of(found)
        except NotJSONError as error:
            yield Problem(place, str(error))
            continue
        left -= len(found)
        if together or (number == 1 and gathered(document)):
            if left < 0:
                raise InputError(f"{where}: more than {_LONGEST} bytes of documents that belong together")
            together.append(document)
        elif records is not None:
            yield from placed(records, place)
        elif number == 1:
            raise InputError(f"{where}: {refusal(document)}")
        elif document:
            yield Problem(place, refusal(document))
    if together:
        yield from placed(records_in(together) or iter(()), where)


def _messages(stream: BufferedReader, path: Path) -> Records:
    """Yield the records of the Collector's messages, which are protobuf or JSON."""
    for number, message in enumerate(framed_messages(stream.read), 1):
        where = f"{path} message {number}"
        if isinstance(message, TornMessageError):
            yield Problem(where, str(message))
            continue
        document: Any = message
        try:
            if _JSON.match(message):
                document, records = _records_of(message)
            else:
                records = records_in(message)
        except NotJSONError as error:
            yield Problem(where, str(error))
            continue
        if records is not None:
            yield from placed(records, where)
        elif message:  # spans of no resource are an empty message
            yield Problem(where, refusal(document))


def _not_json(stream: BufferedReader, path: Path) -> Records:
    """Yield the records of CSV, or of a whole protobuf message."""
    line = stream.readline(_MAX_LINE)
    names = tables.columns_of_csv(line)
    if names is not None and records_in([names]) is not None:
        yield from _rows(tables.read_csv(chain([line], stream)), str(path))
        return
    if line.isspace() and len(line) == _MAX_LINE:
        raise InputError(f"{path}: a megabyte of blanks; {expected()}")
    is_message = line.startswith(b"\n")  # the first byte of OTLP in protobuf, which is read whole
    content = line + stream.read(MAX_MESSAGE if is_message else _LONGEST)
    if not is_message and len(content) > _LONGEST:
        raise InputError(f"{path}: more than {_LONGEST} bytes that are not JSON; {expected()}")
    yield from _whole(content, records_in(content), path)


def _tables(read_tables: Iterator[tables.Table], path: Path, kind: str) -> Records:
    """Yield the records of those tables of a file that hold spans or logs."""
    columns: list[str] = []
    known = False
    for name, rows in read_tables:
        first = next(rows, None)
        if first is None or records_in(first) is None:
            columns += list(first[0]) if first else []
            continue
        known = True
        yield from _rows(chain([first], rows), f"{path} {name}".rstrip())
    if not known:
        found = f"; its columns are {listed(columns)}" if columns else ""
        raise InputError(f"{path}: {kind} without a table of spans{found}; {expected()}")


def _rows(row_portions: Iterable[tables.Rows | BadItem], where: str) -> Records:
    first = 0
    for rows in row_portions:
        if isinstance(rows, BadItem):
            yield Problem(f"{where} {rows.where}", rows.reason)
            first += 1
            continue
        records = records_in(rows)
        if records is not None:
            yield from placed(records, where, first)
        elif rows:
            yield Problem(f"{where} [{first}]", refusal(rows))
        first += len(rows)


def _whole(document: Any, records: Records | None, path: Path) -> Records:
    if records is None and gathered(document):
        records = records_in([document])
    if records is None:
        raise InputError(f"{path}: {refusal(document)}")
    yield from placed(records, str(path))


def _opening(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines up to and including the second that is not blank; of a very long list, a part."""
    filled = 0
    while filled < 2 and (line := stream.readline(_WHOLE)):
        if len(line) == _WHOLE and not line.endswith(b"\n"):
            if not filled and has_items(line):
                yield line
                return
            line = _whole_line(line, stream)
        yield line
        filled += not line.isspace()


def _bounded_lines(stream: IO[bytes]) -> Iterator[bytes]:
    while line := stream.readline(_WHOLE):
        yield _whole_line(line, stream)


def _whole_line(line: bytes, stream: IO[bytes]) -> bytes:
    """Return a line, given its beginning; without long blanks before it, and cut where it is too long."""
    is_cut = False
    while not line.endswith(b"\n") and (more := stream.readline(_WHOLE)):
        if line.isspace():
            line = more
            continue
        is_cut = is_cut or more.isspace() or len(line) > _LONGEST
        if not is_cut:
            line += more
        elif more.endswith(b"\n"):
            break
    return line


def _filled(lines: Iterable[bytes]) -> list[bytes]:
    return [line for line in lines if not line.isspace()]


def _lines_follow(opening: Sequence[bytes]) -> bool:
    """Return whether a file that begins with these lines is JSON Lines, not one long document."""
    if len(opening) < 2:
        return False
    try:
        parse(opening[0])
    except NotJSONError:
        try:
            return records_in(parse(opening[1])) is not None
        except NotJSONError:
            return False
    return True


def _belong_together(filled: Sequence[bytes]) -> bool:
    """Return whether the lines of a file that begins with these are one document."""
    try:
        return gathered(parse(filled[0]))
    except NotJSONError:
        return False


def _gathered(lines: Iterable[bytes], path: Path) -> Records:
    """Yield the records of lines that are one document. Raises InputError if they are too long for that."""
    documents = []
    left = _LONGEST
    for number, line in enumerate(lines, 1):
        left -= len(line)
        if left < 0:
            raise InputError(f"{path}: more than {_LONGEST} bytes of lines that belong together")
        if line.isspace():
            continue
        try:
            documents.append(parse(line))
        except NotJSONError as error:
            yield Problem(f"{path}:{number}", f"{error}; expected one JSON document per line")
    yield from _whole(documents, records_in(documents), path)


def _lines(lines: Iterable[bytes], path: Path, first: int = 1) -> Records:
    number = first - 1
    try:
        for number, line in _numbered(lines, first):
            where = f"{path}:{number}"
            if len(line) > _LONGEST:
                yield Problem(
                    where, f"a line of more than {_LONGEST} bytes; expected one JSON document per line"
                )
                continue
            try:
                document, records = _records_of(line)
            except FurtherTextError:
                yield from _documents(line, BytesIO(), where, 2)
                continue
            except NotJSONError as error:
                yield Problem(where, f"{error}; expected one JSON document per line")
                continue
            if records is not None:
                yield from placed(records, where)
            elif document:
                yield Problem(where, refusal(document))
    except _BROKEN as error:
        yield Problem(f"{path}:{number + 1}", _broken(error))


def _numbered(lines: Iterable[bytes], first: int) -> Iterator[tuple[int, bytes]]:
    """Yield each line that holds anything, with its number; a document on indented lines as one."""
    held: list[bytes] = []
    start = size = 0
    for number, text in enumerate(lines, first):
        line = text.lstrip(_SEPARATOR)
        if held:
            continues = line[:1].isspace() or line.startswith(_CLOSE)
            if continues and size <= _LONGEST:
                held.append(line)
                size += len(line)
            if continues and line[:1].isspace():
                continue
            yield start, b"".join(held)
            held = []
            if continues:
                continue
        if line.rstrip() in _OPEN:
            held, start, size = [line], number, len(line)
        elif not (line.isspace() or line.rstrip() in _EMPTY):
            yield number, line
    if held:
        yield start, b"".join(held)


class TornMessageError(ValueError):
    """A message that cannot be read; the message says why."""


def is_framed(head: bytes) -> bool:
    """Return whether a file that begins like this has messages with their lengths, of spans or logs."""
    if len(head) <= _PREFIX or head[0] >= _MOST_LIKELY or not any(head[:_PREFIX]):
        return False
    return head[_PREFIX] == _MOST_LIKELY or head[_PREFIX:].startswith(ZSTD)


def framed_messages(read: Callable[[int], bytes]) -> Iterator[bytes | TornMessageError]:
    """Yield the messages, decompressed, and an error for one that cannot be read.

    `read` returns the number of bytes that it is given.
    """
    while prefix := read(_PREFIX):
        length = int.from_bytes(prefix, "big")
        message = read(length)
        if len(prefix) < _PREFIX or len(message) < length:
            yield TornMessageError(f"cut short: expected {length} bytes, found {len(message)}")
            return
        if not message.startswith(ZSTD):
            yield message
            continue
        try:
            yield _decompressed_message(message)
        except (zstd.ZstdError, TornMessageError) as error:
            yield TornMessageError(f"broken zstd ({error})")


def _decompressed_message(message: bytes) -> bytes:
    decompressor = zstd.ZstdDecompressor()
    content = decompressor.decompress(message, MAX_MESSAGE)
    if not decompressor.eof:
        raise TornMessageError(f"not complete, or more than {MAX_MESSAGE} bytes")
    return content
