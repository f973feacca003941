"""Records as Arrow tables: the form in which rows reach DuckDB and the spool.

Measured with 60,000 spans of 1.8 kB on two cores and DuckDB 2.0: Arrow through nanoarrow 160 thousand spans
per second, one JSON document per batch 30, unnested lists 50 (1 on DuckDB 1.5).

Of several records with one id, one is stored, independently of the order in which they arrive: the span that
ended last; if several did, the span that started first, then the span with the most text in its attributes
and events, then the span whose texts are greatest. A log record has no id: among logs with equal identifying
columns (`KEYS`), the log whose other texts are greatest is stored.
"""

from __future__ import annotations

import copyreg
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import nanoarrow as na
from nanoarrow.ipc import InputStream, StreamWriter

from spangrade.tracer.base.canonical_json import dumps, encodable
from spangrade.tracer.span import LogRecord, Span

# Batches that are a whole multiple of the row groups' size skip DuckDB's write-ahead log.
BATCH = 8192
# Of text that is held at once, in several forms: records, rows, what was observed of them. Spans of 2 to 6 kB
# make whole batches of `BATCH`; images and long contexts of megabytes do not.
BATCH_BYTES = 48 * 2**20

Table = Literal["spans", "logs"]

Record = TypeVar("Record", Span, LogRecord, Span | LogRecord)

_OTHER = 20  # characters of a number, or of a name in an object
_TEXT, _INTEGER = na.string(), na.int64()
_JSON_COLUMNS = frozenset({"attributes", "events", "links", "resource", "body"})
# Text of this type DuckDB stores as JSON without reading it, which takes 1.1 µs per span.
_JSON = na.extension_type(_TEXT, "arrow.json")
_SPAN_TYPES = {name: _INTEGER if name in {"start_ns", "end_ns"} else _TEXT for name in Span._fields}
_LOG_TYPES = {name: _INTEGER if name == "time_ns" else _TEXT for name in LogRecord._fields}
_SQL_TYPES = {
    na.Type.STRING: "VARCHAR",
    na.Type.INT64: "BIGINT",
    na.Type.DOUBLE: "DOUBLE",
    na.Type.BOOL: "BOOLEAN",
}
KEYS: Mapping[str, Sequence[str]] = {
    "spans": ("trace_id", "span_id"),
    "logs": ("time_ns", "trace_id", "span_id", "event_name", "body", "attributes"),
}
_JSON_TEXT = frozenset({"attributes", "events", "links", "resource"})
_SPAN_TEXTS = tuple(name for name in Span._fields if name not in {*KEYS["spans"], "start_ns", "end_ns"})
_LOG_TEXTS = tuple(name for name in LogRecord._fields if name not in KEYS["logs"])


def sql_types(types: dict[str, na.Schema]) -> dict[str, str]:
    """Return the DuckDB types of Arrow columns."""
    return {name: _SQL_TYPES[kind.type] for name, kind in types.items()}


# What the tables must have; JSON is text.
COLUMNS = {
    "spans": {"seq": "BIGINT"} | sql_types(_SPAN_TYPES),
    "logs": {"seq": "BIGINT"} | sql_types(_LOG_TYPES),
}


def distinct(records: Iterable[Span | LogRecord]) -> tuple[list[Span], list[LogRecord]]:
    """Return the spans and the logs among records, each once: of records with one id, the greatest (`rank`).

    Log records have no id: those with equal identifying columns are one record (`insert_logs.sql`).
    """
    spans: dict[tuple[str, str], Span] = {}
    logs: dict[tuple[Any, ...], LogRecord] = {}
    for record in records:
        if isinstance(record, Span):
            _keep(spans, (record.trace_id, record.span_id), record)
        else:
            identity = (record.trace_id, record.span_id, record.time_ns, record.event_name)
            _keep(logs, (*identity, dumps(record.body), dumps(record.attributes)), record)
    return list(spans.values()), list(logs.values())


def _keep(records: dict[Any, Record], key: tuple[Any, ...], record: Record) -> None:
    known = records.setdefault(key, record)
    if known is not record and rank(record) > rank(known):
        records[key] = record


def rows_of(records: Iterable[Span | LogRecord]) -> dict[Table, na.Array]:
    """Return records as the columns of their tables; one that occurs twice is kept once."""
    return table_rows(*distinct(records))


def table_rows(spans: Sequence[Span], logs: Sequence[LogRecord]) -> dict[Table, na.Array]:
    """Return spans and logs, each of them once, as the columns of their tables."""
    tables: dict[Table, na.Array] = {}
    if spans:
        tables["spans"] = arrow_rows(spans, _SPAN_TYPES)
    if logs:
        tables["logs"] = arrow_rows(logs, _LOG_TYPES)
    return tables


def arrow_column(name: str, texts: Iterable[str]) -> na.Array:
    """Return an Arrow table of one text column, for a statement that looks rows up by it."""
    return arrow_rows([(text,) for text in texts], {name: _TEXT})


def arrow_rows(rows: Sequence[tuple[Any, ...]], types: dict[str, Any]) -> na.Array:
    """Return rows as an Arrow table; `types` gives the columns' names and types in the rows' order.

    Columns that hold JSON values are written as JSON text. Half a surrogate pair becomes U+FFFD.
    """
    columns = []
    cells = zip(*rows, strict=True) if rows else ((),) * len(types)
    for (name, kind), values in zip(types.items(), cells, strict=True):
        texts = _json_texts(values) if name in _JSON_COLUMNS else values
        try:
            columns.append(na.c_array(texts, kind))
        except ValueError:  # not looked for before: it is rare
            whole = [encodable(cell) if isinstance(cell, str) else cell for cell in texts]
            columns.append(na.c_array(whole, kind))
    schema = na.struct({name: _JSON if name in _JSON_COLUMNS else kind for name, kind in types.items()})
    return na.Array(na.c_array_from_buffers(schema, len(rows), [None], children=columns))


def joined(parts: Sequence[na.Array]) -> na.Array:
    """Return Arrow tables of the same columns as one."""
    if len(parts) == 1:
        return parts[0]
    return na.Array.from_chunks([chunk for part in parts for chunk in part.iter_chunks()])


def bytes_of(tables: Mapping[Any, na.Array]) -> int:
    """Return how many bytes of memory tables take."""
    views = (view for rows in tables.values() for view in rows.iter_chunk_views())
    return sum(buffer.size_bytes for view in views for column in view.children for buffer in column.buffers)


def to_ipc(rows: na.Array) -> bytes:
    """Return an Arrow table as the bytes of an IPC stream."""
    out = io.BytesIO()
    with StreamWriter.from_writable(out) as writer:
        writer.write_array(rows)
    return out.getvalue()


def from_ipc(content: bytes) -> na.Array:
    """Return the Arrow table that `to_ipc` made bytes of."""
    with InputStream.from_readable(io.BytesIO(content)) as stream:
        return na.ArrayStream(stream).read_all()


# Rows from another process come as bytes of IPC. Within a process they are not copied.
copyreg.pickle(na.Array, lambda rows: (from_ipc, (to_ipc(rows),)))


def batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield records in batches of `BATCH`, or of fewer that reach `BATCH_BYTES`."""
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += size_of(record)
        if len(batch) == BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def size_of(record: Span | LogRecord) -> int:
    """Return about how long the text of a record is, without its resource, which many records share."""
    if isinstance(record, Span):
        return _length(record.attributes) + (_length(record.events) if record.events else 0)
    return _length(record.attributes) + _length(record.body)


def _length(value: Any) -> int:
    """Return about how long a JSON value is as text, in 1 µs for the attributes of a span."""
    total = 0
    values = [value]
    for one in values:  # those in it are added while it is read
        if isinstance(one, str):
            total += len(one)
            continue
        total += _OTHER
        if isinstance(one, dict):
            values += one.values()
        elif isinstance(one, list):
            values += one
    return total


def _json_texts(values: Sequence[Any]) -> list[str | None]:
    texts: list[str | None] = []
    last, text = None, None
    for value in values:
        if value is not last:  # a resource is one object, shared by all spans of a request
            last, text = value, None if value is None else dumps(value)
        texts.append(text)
    return texts


def rank(record: Span | LogRecord) -> tuple[int | str, ...]:
    """Return a key for sorting: of the records with one id, the greatest is stored."""
    if isinstance(record, Span):
        texts = [_text(record, name) for name in _SPAN_TEXTS]
        size = sum(len(_text(record, name).encode()) for name in ("attributes", "events"))
        return record.end_ns, -record.start_ns, size, *texts
    return tuple(_text(record, name) for name in _LOG_TEXTS)


def _text(record: Span | LogRecord, name: str) -> str:
    value = getattr(record, name)
    return "" if value is None else dumps(value) if name in _JSON_TEXT else value


def sql_rank(table: str, row: str) -> str:
    """Return the SQL expression of the rank of a row of a table, or of rows to be written to it."""
    names = _SPAN_TEXTS if table == "spans" else _LOG_TEXTS
    texts = [f"coalesce({row}.{name}::VARCHAR, '')" for name in names]
    if table == "spans":
        size = " + ".join(f"coalesce(strlen({row}.{name}::VARCHAR), 0)" for name in ("attributes", "events"))
        texts = [f"{row}.end_ns", f"-{row}.start_ns", size, *texts]
    return f"({', '.join(texts)})"
