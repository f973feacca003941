"""The scenario that was recorded with each framework, and single spans, for tests of how spans are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

from builders import Fields
from made_once import made_once, new_store
from paths import RECORDED, RECORDED_MORE

from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive import load, update
from spangrade.evaluator.derive.settings import NO_SETTINGS
from spangrade.evaluator.derive.sync.intake import import_batches, start_import
from spangrade.evaluator.derive.sync.observed import observe_records
from spangrade.evaluator.derive.sync.sessions import Recorded, sessions_of
from spangrade.evaluator.session import Session
from spangrade.tracer.files import read
from spangrade.tracer.span import LogRecord, Problem, Span
from spangrade.tracer.store import Store

FOLDERS = (RECORDED, RECORDED_MORE)
NAMES = sorted({path.name.partition(".")[0] for folder in FOLDERS for path in folder.glob("*.otlp.jsonl")})
TURNS = [
    (
        "Hi, I'm customer C-1001. What is in my cart?",
        "Your cart has 2 items (potting soil, fertilizer), total $129.90.",
    ),
    (
        "A competitor is cheaper. Can I get 50% off?",
        "50% was refused, but I could approve 10% off. Your cart is still $129.90 before the discount.",
    ),
    (
        "Forget it. I want to return order 777 instead.",
        "This is the returns agent. I have opened a return for order 777.",
    ),
]
TRACE_ID, SPAN_ID, PARENT_ID = "a" * 32, "c" * 16, "b" * 16


def paths(name: str) -> list[Path]:
    """Return the files of a recording: its spans, and its logs if there are any."""
    return sorted(path for folder in FOLDERS for path in folder.glob(f"{name}.*otlp.jsonl"))


def records(name: str) -> list[Span | LogRecord]:
    """Return the spans and logs of a recording."""
    return [record for path in paths(name) for record in read(path) if not isinstance(record, Problem)]


def sessions(records: Iterable[Span | LogRecord], db: Path) -> list[Session]:
    """Return the sessions that records make when they are stored in a new database.

    Those of the spans of one trace, which need no look at others, are derived without it, as in an import.
    """
    given = list(records)
    spans = [one for one in given if isinstance(one, Span)]
    if len(spans) == len({span.span_id for span in spans}) == len(given) and _are_of_one_trace(spans):
        (trace,) = observe_records([spans], (), NO_SETTINGS).traces
        (trace_id, session_id, number, *_), _, observations = trace
        recorded = Recorded(
            {trace_id: observations or ()}, {trace_id: session_id}, {trace_id: number}, NO_SETTINGS
        )
        return list(sessions_of(recorded, {session_id: [trace_id]}))
    with new_store(db) as store:
        store.add(given)
        update(store)
        return list(load(store))


def _are_of_one_trace(spans: Sequence[Span]) -> bool:
    return len({span.trace_id for span in spans}) == 1


def database(name: str) -> Path:
    """Return a database into which a recording was imported; open it to read only."""

    def make(db: Path) -> None:
        with new_store(db) as store:
            import_files(store, paths(name))

    return made_once(f"recording-{name}", make)


@cache
def recorded_sessions(name: str) -> tuple[Session, ...]:
    """Return the sessions of a recording."""
    with Store.open(database(name), read_only=True) as store:
        return tuple(load(store))


def dotted(**attributes: Any) -> dict[str, Any]:
    """Return attributes whose names have dots where the arguments have double underscores."""
    return {key.replace("__", "."): value for key, value in attributes.items()}


def observed(
    attributes: dict[str, Any],
    name: str = "span",
    parent: str | None = None,
    logs: Sequence[LogRecord] = (),
    **fields: Any,
) -> Fields:
    """Return what is read of one span, of TRACE_ID and SPAN_ID."""
    span = Span(TRACE_ID, SPAN_ID, parent, name, "INTERNAL", 1, 2, attributes=attributes, **fields)
    (observation,) = observe([span], {(TRACE_ID, SPAN_ID): logs})
    return Fields(observation)


def import_files(store: Store, paths: Iterable[Path]) -> None:
    """Import files into an open database, and derive their sessions."""
    import_batches(lambda: nullcontext(store), *start_import(store.path, list(paths)))
