"""Observations that are kept until all traces of their sessions are known: their spans are not read again."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from contextlib import suppress

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.sync.recorded import TraceRange

LIMIT = (
    128 * 2**20
)  # bytes; a span's observation has about 300, and reading the span again takes ten times longer

# Of a trace, as they are or as bytes.
Packed = bytes | Sequence[Observation]


def packed(content: Packed) -> bytes | None:
    """Return observations as bytes; None if they cannot be: dialects are third-party code."""
    if isinstance(content, bytes):
        return content
    with suppress(pickle.PicklingError, TypeError, AttributeError):
        # As plain tuples: a named one is asked for its values by a function of Python.
        return pickle.dumps(list(map(tuple, content)), pickle.HIGHEST_PROTOCOL)
    return None


def unpacked(content: Packed) -> Sequence[Observation]:
    """Return the observations of a trace, packed or not."""
    if not isinstance(content, bytes):
        return content
    return [Observation._make(values) for values in pickle.loads(content)]  # noqa: S301 (made by `packed`)


class Kept:
    """The packed observations of traces, each with what it depends on: at most `limit` bytes."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._room = limit
        self._traces: dict[str, tuple[object, bytes]] = {}

    def add(self, trace: TraceRange, records: int, settings: object, content: Packed) -> None:
        """Keep the observations of a trace of so many records, read by some settings, if there is room."""
        self.take(trace, records, settings)
        content_bytes = packed(content)
        if content_bytes is not None and len(content_bytes) <= self._room:
            self._room -= len(content_bytes)
            self._traces[trace.trace_id] = ((trace, records, settings), content_bytes)

    def take(self, trace: TraceRange, records: int, settings: object) -> bytes | None:
        """Return what is kept of a trace, once; None if it has other records or the settings are others."""
        depends_on, content = self._traces.pop(trace.trace_id, (None, b""))
        self._room += len(content)
        return content if depends_on == (trace, records, settings) else None
