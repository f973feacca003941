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
    """Return the sessions that records make when they are stored in a new database, if they need one."""
    given = list(records)
    if (alone := _derived_alone(given)) is not None:
        return alone
    with new_store(db) as store:
        store.add(given)
        update(store)
        return list(load(store))


def sessions_of_file(file: Path, db: Path) -> list[Session]:
    """Return the sessions that a file makes, each part of which can be read; as `sessions`."""
    given = list(read(file))
    assert [one for one in given if isinstance(one, Problem)] == []
    return sessions((one for one in given if not isinstance(one, Problem)), db)


def _derived_alone(records: Sequence[Span | LogRecord]) -> list[Session] | None:
    """Return the sessions of spans that need no look at other traces, as an import derives them.

    These are of one trace, or of conversations with ids; None for others, and where there are logs.
    """
    spans = [one for one in records if isinstance(one, Span)]
    if not len(records) == len(spans) == len({(span.trace_id, span.span_id) for span in spans}):
        return None
    observed = observe_records([spans], (), NO_SETTINGS)
    traces = [trace for trace, _ in observed]
    if len(traces) > 1 and any(trace.session_id == trace.trace_id for trace in traces):
        return None
    recorded = Recorded(
        {trace.trace_id: observations for trace, observations in observed},
        {trace.trace_id: trace.session_id for trace in traces},
        {trace.trace_id: trace.records for trace in traces},
        NO_SETTINGS,
    )
    of_sessions: dict[str, list[str]] = {}
    for trace in traces:
        of_sessions.setdefault(trace.session_id, []).append(trace.trace_id)
    return list(sessions_of(recorded, of_sessions))


def database(name: str) -> Path:
    """Return a database into which a recording was imported; open it to read only."""

    def make(db: Path) -> None:
        with new_store(db) as store:
            import_files(store, paths(name))

    return made_once(f"recording-{name}", make)


@cache
def recorded_sessions(name: str) -> tuple[Session, ...]:
    """Return the sessions of a recording."""
    if (alone := _derived_alone(records(name))) is not None:
        return tuple(alone)
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
