"""Read JSON text: a document, or the items of a long list one by one, each of which may be broken."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

_LIST = re.compile(rb"\s*\[")
# The lists that documents consist of: an item of them is a document by itself.
_MEMBERS = rb"data|resourceSpans|resource_spans|resourceLogs|resource_logs|batches"
_LIST_OF_ITEMS = re.compile(rb'\s*(?:\{\s*"(' + _MEMBERS + rb')"\s*:\s*)?\[')
# A string, or brackets; a quotation mark alone begins a string that is not here yet. With the signs
# said first, what is between them is passed over four times as fast.
_TOKEN = re.compile(rb'(?=[\[\]{},"])(?:"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]+|[\]}]+|[,"])', re.DOTALL)
# A number of twenty digits or more, which may be beyond 64 bits: orjson reads such integers as floats. Within
# a text it only costs the slower reader.
_LONG_NUMBER = re.compile(rb"[:\[,\s]-?\d{20}")
_STRING_OR_SIGN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}:]', re.DOTALL)
_ZEROS_FOR_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
_TWENTY_DIGITS = b"0" * 20  # with zeros for digits; looking for it takes a sixth of the time
_BEGINNING = re.compile(rb'\s*\{\s*"[^"\\]*"\s*:')
_CHUNK = 1 << 20
_FURTHER = 4 << 20  # bytes of an item, from which on its end is looked for bracket by bracket
_OPENING = 512  # bytes in which a list of items begins
_PORTION = 1 << 20  # bytes of items that make a portion
_DEEPEST = 1 << 20  # levels of lists and objects; an item that is nested less is lost alone
# Blanks may stand between documents, and the separator of RFC 7464.
_BETWEEN = b" \t\r\n\x1e"
_FILLED = re.compile(rb"[^ \t\r\n\x1e]")
_TOO_DEEP = "JSON nested too deeply"


class NotJSONError(ValueError):
    """Text that is not JSON: the reason, and the byte where it stops being JSON."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class FurtherTextError(NotJSONError):
    """Text that goes on, at the offset, after a whole document."""


class DoubledKeyError(json.JSONDecodeError):
    """Text that is JSON, in which an object has a key twice: readers disagree about its value."""


class Portion(NamedTuple):
    """A document of some items of a list, and the number of its first item in that list.

    Of the members that follow the list in the document, `first` is None.
    """

    document: Any
    first: int | None


class NextLines(NamedTuple):
    """The beginning of the text after a document, which then is the first of JSON Lines."""

    text: bytes


class NextDocuments(NamedTuple):
    """The beginning of the text after a document that other documents follow."""

    text: bytes


class BadItem(NamedTuple):
    """An item of a list that is not JSON: where it is, and the reason."""

    where: str
    reason: str


def parse(text: bytes) -> Any:
    """Return a document's value. Raises NotJSONError."""
    # orjson reads integers beyond 64 bits, such as the trace ids in ADK's lists of spans, as floats; and it
    # rejects NaN and half surrogate pairs, which Python's json reads because it writes them.
    if not _LIST.match(text):
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(text)
    try:
        return json.loads(text.decode())
    except UnicodeDecodeError as error:
        raise NotJSONError(f"not UTF-8 at byte {error.start}", error.start) from None
    except json.JSONDecodeError as error:
        offset = len(error.doc[: error.pos].encode())
        if error.msg.startswith("Unterminated string") or not error.doc[error.pos :].strip():
            raise NotJSONError(f"JSON cut short at byte {len(text)}", len(text)) from None
        reason = error.msg.lower().removesuffix(" at").rstrip(": ")
        refused = FurtherTextError if error.msg == "Extra data" else NotJSONError
        raise refused(f"not JSON at byte {offset}: {reason}", offset) from None
    except RecursionError:
        raise NotJSONError(_TOO_DEEP, len(text)) from None
    except ValueError as error:  # an integer of thousands of digits
        raise NotJSONError(f"JSON with a number that is too long: {error}", len(text)) from None


def parse_exact(text: bytes | str) -> Any:
    """Return the JSON value of a text, integers of any size exactly. Raises json.JSONDecodeError."""
    encoded = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    value = orjson.loads(encoded)
    if _TWENTY_DIGITS not in encoded.translate(_ZEROS_FOR_DIGITS) or not _LONG_NUMBER.search(b" " + encoded):
        return value
    try:
        return json.loads(encoded)
    except RecursionError as error:
        raise json.JSONDecodeError("nested too deeply", "", 0) from error
    except ValueError as error:  # an integer of thousands of digits
        raise json.JSONDecodeError(str(error), "", 0) from error


def parse_written(text: bytes | str, recorded: Collection[str] = ()) -> Any:
    """Return the JSON value of a text that people write, integers of any size exactly.

    The members of the topmost object that are `recorded` by machines are read as `parse_exact` reads them.
    Raises json.JSONDecodeError, and DoubledKeyError if an object has a key twice.
    """
    value = parse_exact(text)
    try:
        json.loads(text, object_pairs_hook=_refuse_doubled)
    except RecursionError as error:
        raise json.JSONDecodeError("nested too deeply", "", 0) from error
    except _RepeatedKeyError:
        written = text if isinstance(text, str) else text.decode()
        for key, place in _doubled_keys(written, recorded):
            shown = json.dumps(key, ensure_ascii=False)
            raise DoubledKeyError(f"the key {shown} is in one object twice", written, place) from None
    return value


def refusal(error: json.JSONDecodeError, first_line: int = 1) -> str:
    """Return why a text is refused, with its place: "not JSON: line 3, column 7: …".

    `first_line` is the number of the text's first line in its file.
    """
    reason = f"line {first_line + error.lineno - 1}, column {error.colno}: {error.msg}"
    return reason if isinstance(error, DoubledKeyError) else f"not JSON: {reason}"


class _RepeatedKeyError(Exception):
    """An object has a key twice."""


def _refuse_doubled(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len({key for key, _ in pairs}) < len(pairs):
        raise _RepeatedKeyError


def _doubled_keys(text: str, recorded: Collection[str]) -> Iterator[tuple[str, int]]:
    """Yield each key that an object of a JSON text has had before, and its place."""
    objects: list[set[str]] = []
    topmost, string = "", None
    for token in _STRING_OR_SIGN.finditer(text):
        match token[0]:
            case "{":
                objects.append(set())
            case "}":
                objects.pop()
            case ":" if string is not None:
                key = json.loads(string[0])
                topmost = key if len(objects) == 1 else topmost
                if key in objects[-1] and (len(objects) == 1 or topmost not in recorded):
                    yield key, string.start()
                objects[-1].add(key)
            case _:
                string = token


def has_items(text: bytes) -> bool:
    """Return whether a document that begins like this can be read in portions."""
    return _LIST_OF_ITEMS.match(text) is not None


def documents(read: Callable[[int], bytes], longest: int) -> Iterator[bytes | BadItem]:
    """Yield the texts of documents that follow one another, with or without separators.

    `read` returns up to the number of bytes that it is given, none at its end. A text may still not be JSON.
    Where the end of a document cannot be told (it is cut short, nested too deeply, of more than `longest`
    bytes, or is neither an object nor a list), a BadItem without a place is the last: the rest is not read.
    """
    text, start = b"", 0
    while True:
        if (filled := _FILLED.search(text, start)) is None:
            text, start = read(_CHUNK), 0
            if not text:
                return
            continue
        start = filled.start()
        if text[start : start + 1] not in (b"[", b"{"):
            yield BadItem("", "neither a JSON object nor a list")
            return
        scan = _Scan(1, start + 1)
        while (end := scan.end(text)) is None:
            size = len(text) - start
            more = read(max(_CHUNK, size)) if scan.depth <= _DEEPEST and size <= longest else b""
            if not more:
                yield BadItem("", scan.problem(size, longest))
                return
            text, scan.position, start = text[start:] + more, scan.position - start, 0
        yield text[start:end]
        start = end


class _Scan:
    """Where an object or a list ends or, in a list, an item of it, for a text that comes in pieces."""

    def __init__(self, depth: int, position: int, *, in_list: bool = False) -> None:
        self.depth = depth  # of the objects and lists that are open, without the list of the items
        self.position = position
        self._in_list = in_list

    def end(self, text: bytes) -> int | None:
        """Return the position after the last bracket or, in a list, after the comma or bracket of the item.

        None if it is not here yet or nested too deeply.
        """
        for token in _TOKEN.finditer(text, self.position):
            match token[0][:1]:
                case b'"' if len(token[0]) == 1:
                    return None  # a string that is not whole yet: from its beginning once more
                case b"[" | b"{":
                    self.depth += len(token[0])
                    if self.depth > _DEEPEST:
                        return None
                case b"]" | b"}":
                    last = self.depth + self._in_list
                    if len(token[0]) >= last:
                        return token.start() + last
                    self.depth -= len(token[0])
                case b"," if self._in_list and not self.depth:
                    return token.end()
            self.position = token.end()
        return None

    def problem(self, size: int, longest: int) -> str:
        """Return why a text of this size has no end."""
        if self.depth > _DEEPEST:
            return _TOO_DEEP
        return f"a document of more than {longest} bytes" if size > longest else "JSON cut short"


def portions(read: Callable[[int], bytes]) -> Iterator[Portion | BadItem | NextLines | NextDocuments]:
    """Yield a document that is a list, or that begins with one, in portions of about a megabyte.

    `read` returns up to the number of bytes that it is given, none at its end. What follows the list is a
    portion of its own; after it, the beginning of what follows the document. A document of another form
    yields nothing.
    """
    head = _read_at_least(read, _OPENING)
    opening = _LIST_OF_ITEMS.match(head)
    if opening is None:
        return
    key = opening[1].decode() if opening[1] else None
    number, first, size = 0, 0, 0
    items: list[Any] = []

    def portion() -> Portion:
        return Portion(items if key is None else {key: items}, first)

    rest = head[opening.end() :]
    for text in _items(rest, read):
        if isinstance(text, _Rest):
            if items:
                yield portion()
            yield from _after(text, read, key)
            return
        if isinstance(text, BadItem):
            if items:
                yield portion()
            yield BadItem(f"{key or ''}[{number}]", text.reason)
            return
        try:
            items.append(text.value if isinstance(text, _Parsed) else parse(text))
            size += text.size if isinstance(text, _Parsed) else len(text)
        except NotJSONError as error:
            if items:
                yield portion()
            yield BadItem(f"{key or ''}[{number}]", str(error))
            items, first, size = [], number + 1, 0
        number += 1
        if size >= _PORTION:
            yield portion()
            items, first, size = [], number, 0
    if items:
        yield portion()
    yield BadItem(f"{key or ''}[{number}]", "JSON cut short")


class _Rest(bytes):
    """The text after the end of a list."""


class _Parsed(NamedTuple):
    """The value of an item, and the number of bytes of its text."""

    value: Any
    size: int


def _read_at_least(read: Callable[[int], bytes], size: int) -> bytes:
    text = b""
    while len(text) < size and (more := read(_CHUNK)):
        text += more
    return text


def _items(text: bytes, read: Callable[[int], bytes]) -> Iterator[bytes | _Parsed | BadItem]:
    """Yield a list's items after its bracket, then the text after the list as a `_Rest`.

    An item that is nested too deeply is the last: a BadItem without a place.
    """
    start, scan = 0, _Scan(0, 0, in_list=True)
    between = b""  # a comma, and how the item after it began: most items of a list begin alike
    while True:
        # What is an object as far as the next text of that kind is whole: no beginning of one is. This takes
        # a third of the time of looking at every bracket.
        if between and scan.position == start:
            while (end := text.find(between, start)) >= 0 and (value := _object(text[start:end])) is not None:
                yield _Parsed(value, end - start)
                start = end + 1
            scan = _Scan(0, start, in_list=True)
            if end < 0 and len(text) - start <= _FURTHER and (more := read(_CHUNK)):
                text, start, scan = text[start:] + more, 0, _Scan(0, 0, in_list=True)
                continue
        found = scan.end(text)
        if found is None:
            if scan.depth > _DEEPEST:
                yield BadItem("", _TOO_DEEP)
                return
            more = read(max(_CHUNK, len(text) - start))  # a long string is looked through again, but rarely
            if not more:
                return
            kept = b"" if text[start:].isspace() else text[start:]
            scan.position = scan.position - start if kept else 0
            text, start = kept + more, 0
        elif text[found - 1 : found] == b",":
            yield text[start : found - 1]
            start, scan = found, _Scan(0, found, in_list=True)
            begins = _BEGINNING.match(text, start)
            between = b"," + begins[0] if begins else between
        else:
            if (item := text[start : found - 1]).strip():
                yield item
            yield _Rest(text[found:])
            return


def _object(text: bytes) -> dict[str, Any] | None:
    """Return the value of a text that is an object, None of any other text."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _after(
    rest: bytes, read: Callable[[int], bytes], key: str | None
) -> Iterator[Portion | BadItem | NextLines | NextDocuments]:
    """Yield the other members of a document after its list of items, as a document, and what follows it."""
    while b"\n" not in rest and (more := read(_CHUNK)):
        rest += more
    line, _, further = rest.partition(b"\n")
    following: NextLines | NextDocuments = NextLines(further)
    try:
        document = _members(line, key)
    except NotJSONError:  # a document of several lines, or another one on this line
        scan = _Scan(0 if key is None else 1, 0)
        while (end := scan.end(rest) if scan.depth else 0) is None and (more := read(_CHUNK)):
            rest += more
        following = NextDocuments(rest[end:].lstrip(_BETWEEN) if end is not None else b"")
        try:
            document = _members(rest[:end], key)
        except NotJSONError as error:
            yield BadItem(f"after {key or 'the list'}", str(error))
            return
    if document:
        yield Portion(document, None)
    if following.text:
        yield following


def _members(text: bytes, key: str | None) -> Any:
    """Return the rest of a document after a list of items, as a document. Raises NotJSONError."""
    return parse(b"[]" + text if key is None else b"{" + text.strip().removeprefix(b","))
