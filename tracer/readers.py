"""The formats of recorded spans: which reader takes a document, and the error if none does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, Protocol, TypeAlias, runtime_checkable

from spangrade.tracer.base.plugins import load_plugins
from spangrade.tracer.span import LogRecord, Problem, Span

Records: TypeAlias = Iterator[Span | LogRecord | Problem]

_CONTROL = re.compile(rb"[\x00-\x08]")
_ITEM = re.compile(r"(\w*)\[(\d+)\]")
_MAX_COLUMNS = 8  # that a message lists
_JSON_LINE = re.compile(rb'^\s*(?:[\[{]\s*$|\{\s*[\w"].*:)', re.MULTILINE)
_EXPORTER = "use an exporter for OTLP (OTEL_TRACES_EXPORTER=otlp), or spangrade.configure(db=…)"
_PRINTED = f"spans as a console exporter prints them, which are not read: {_EXPORTER}"
# .NET's, the Collector's and Node's console exporters.
_OF_CONSOLES = re.compile(
    rb"^\s*(?:Activity\.TraceId:|ResourceSpans #\d|Trace ID\s*: [0-9a-f]{32}|traceId: ['\"`][0-9a-f]{32}\W)",
    re.MULTILINE,
)
_BEGINNING = 1 << 16  # bytes in which what a console exporter printed is looked for
_UNREAD = "{}, which are not read: import the spans that its instrumentation exports (docs/reading.md)"
_LOGGED = f"text with objects between other lines, such as a log with printed spans: {_EXPORTER}"


@runtime_checkable
class Reader(Protocol):
    """A format of recorded spans, registered as an entry point of the group `spangrade.readers`."""

    def __call__(self, document: Any, /) -> Records | None:
        """Return a document's records, or None if it is of another format.

        The document is a JSON value: a whole file, one line of JSON Lines, or a list of rows of a table. Or
        it is the bytes of a file that is not JSON. A long document that is a list, or begins with one, comes
        in several documents of some of its items. A Problem's `where` is the position in the document; in a
        list it begins with the item's number: `[3]`, `data[3]`.

        A reader whose lines belong together has an attribute `gathers`, a function: it gets the first line of
        JSON Lines and, if it returns true, the lines come as one list.
        """


@cache
def _readers() -> dict[str, Reader]:
    return load_plugins("spangrade.readers", Reader)


def records_in(document: Any) -> Records | None:
    """Return a document's records by the first reader that takes it, None if no reader does.

    An object is first given to the reader of OTLP, which knows its own by a key: most documents are such.
    """
    readers = _readers()
    tried = (readers["otlp"], *readers.values()) if isinstance(document, dict) else readers.values()
    found = next((found for reader in tried if (found := reader(document)) is not None), None)
    if found is None and isinstance(document, list) and document and isinstance(document[0], dict | list):
        first = records_in(document[0])
        return None if first is None else _each(first, document)
    return found


def _each(first: Records, documents: list[Any]) -> Records:
    """Yield the records of documents in a list, given those of the first."""
    for number, document in enumerate(documents):
        records = first if not number else records_in(document)
        place = f"[{number}]"
        if records is None:
            yield Problem(place, refusal(document))
            continue
        for record in records:
            if isinstance(record, Problem):
                yield record._replace(where=f"{place}.{record.where}")
            else:
                yield record


def gathered(document: Any) -> bool:
    """Return whether the lines of a file that begins with this one are one document for a reader."""
    asked = (getattr(reader, "gathers", None) for reader in _readers().values())
    return any(gathers(document) for gathers in asked if gathers is not None)


def placed(records: Records, where: str, first: int = 0) -> Records:
    """Yield records with the places of problems in the file.

    `first` is the number of the document's first item in a list that comes in several documents.
    """
    for record in records:
        if isinstance(record, Problem):
            place = _ITEM.sub(lambda item: f"{item[1]}[{int(item[2]) + first}]", record.where, count=1)
            yield record._replace(where=f"{where} {place if first else record.where}".rstrip())
        else:
            yield record


def printed(text: bytes) -> str | None:
    """Return that a text is what a console exporter printed; None if it is not."""
    return _PRINTED if _OF_CONSOLES.search(text[:_BEGINNING]) else None


def refusal(document: Any) -> str:
    """Return the message that rejects a document that no reader takes."""
    return f"{_described(document)}; {expected()}"


def expected() -> str:
    """Return the end of a message that rejects a document: the known formats."""
    return f"expected one of the formats {', '.join(_readers())}"


def listed(names: list[str]) -> str:
    """Return the first names of keys or columns, for a message."""
    shown = ", ".join(ascii(name[:40])[1:-1] for name in names[:_MAX_COLUMNS])
    return f"{shown}, …" if len(names) > _MAX_COLUMNS else shown


def _described(document: Any) -> str:
    match document:
        case {"kind": "request" | "response", "parts": list()}:
            return _UNREAD.format("messages as Pydantic AI dumps them")
        case {"source": str(), "type": str()} | {"messages": [{"source": str(), "type": str()}, *_]}:
            return _UNREAD.format("messages as AutoGen dumps them")
        case {"run_type": str(), "trace_id": _}:
            return _UNREAD.format("runs as LangSmith exports them")
        case {"context": {"trace_id": str(trace_id)}, "name": _, "start_time": _} if trace_id[:2] == "0x":
            return _PRINTED
        case {"SpanContext": {"TraceID": _}}:  # Go's
            return _PRINTED
        case dict():
            keys = listed(list(document)[:4])
            return f"a JSON object with the keys {keys}" if document else "an empty JSON object"
        case [dict() as first, *_]:
            return f"a JSON list; its first item is {_described(first)}"
        case list():
            return "a JSON list of something else" if document else "an empty JSON list"
        case bytes():
            with suppress(UnicodeDecodeError):
                if not _CONTROL.search(document[:512]) and document.decode():
                    if said := printed(document):
                        return said
                    return _LOGGED if _JSON_LINE.search(document) else "text without a JSON object or list"
            return "binary content of another kind"
        case _:
            return "a single JSON value"
