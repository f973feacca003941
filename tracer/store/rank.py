"""Choose the record to store among several with one id, independently of the order in which they arrive.

It is the span that ended last; if several did, the span that started first, then the span with the most text
in its attributes and events, then the span whose texts are greatest. A log record has no id: among logs with
equal identifying columns (`KEYS`), the log whose other texts are greatest is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.span import LogRecord, Span

KEYS: Mapping[str, Sequence[str]] = {
    "spans": ("trace_id", "span_id"),
    "logs": ("time_ns", "trace_id", "span_id", "event_name", "body", "attributes"),
}
_JSON = frozenset({"attributes", "events", "links", "resource"})
_SPAN_TEXTS = tuple(name for name in Span._fields if name not in {*KEYS["spans"], "start_ns", "end_ns"})
_LOG_TEXTS = tuple(name for name in LogRecord._fields if name not in KEYS["logs"])


def rank(record: Span | LogRecord) -> tuple[int | str, ...]:
    """Return a key for sorting: of the records with one id, the greatest is stored."""
    if isinstance(record, Span):
        texts = [_text(record, name) for name in _SPAN_TEXTS]
        size = sum(len(_text(record, name).encode()) for name in ("attributes", "events"))
        return record.end_ns, -record.start_ns, size, *texts
    return tuple(_text(record, name) for name in _LOG_TEXTS)


def _text(record: Span | LogRecord, name: str) -> str:
    value = getattr(record, name)
    return "" if value is None else dumps(value) if name in _JSON else value


def sql_rank(table: str, row: str) -> str:
    """Return the SQL expression of the rank of a row of a table, or of rows to be written to it."""
    names = _SPAN_TEXTS if table == "spans" else _LOG_TEXTS
    texts = [f"coalesce({row}.{name}::VARCHAR, '')" for name in names]
    if table == "spans":
        size = " + ".join(f"coalesce(strlen({row}.{name}::VARCHAR), 0)" for name in ("attributes", "events"))
        texts = [f"{row}.end_ns", f"-{row}.start_ns", size, *texts]
    return f"({', '.join(texts)})"
