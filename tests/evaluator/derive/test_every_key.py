"""What is derived of each framework's recording, and what is different where a part of it was not recorded.

A part is a key of attributes (numbers in it are one: `#`), which is absent or empty in all spans and logs, or
the spans of a name, which are absent, failed or took no time. Each part is tried in one recording.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from itertools import zip_longest
from typing import Any

import pytest
from cases import FOLDER, as_json, compare, difference, leaves
from paths import FIXTURES, RECORDED, RECORDED_MORE

from spangrade.converters.spans.observation import Observation
from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive.settings import NO_SETTINGS
from spangrade.evaluator.derive.sync.observed import observations_of, traces_of
from spangrade.evaluator.derive.sync.sessions import Recorded, sessions_of
from spangrade.evaluator.session import Session
from spangrade.tracer.files import read
from spangrade.tracer.span import LogRecord, Problem, Span

FOLDERS = (RECORDED, RECORDED_MORE, FIXTURES / "stacks", FIXTURES / "structure")
RECORDINGS = sorted(
    {file.name.partition(".")[0] for folder in FOLDERS for file in folder.glob("*.otlp.jsonl")}
)
MOST_PATHS, MOST_CHARS = 12, 60
Record = Span | LogRecord
Change = Callable[[Record], Record | None]
SPANS: Mapping[str, Callable[[Span], Span | None]] = {
    "absent": lambda span: None,
    "failed": lambda span: span._replace(status="ERROR", status_message="no such order"),
    "ok": lambda span: span._replace(status="OK", status_message=None, events=[]),
    "instant": lambda span: span._replace(end_ns=span.start_ns),
}
EMPTY: Mapping[type, Any] = {str: "", bool: False, int: 0, float: 0.0, list: [], dict: {}}


@cache
def recording(name: str) -> Recording:
    return Recording(name)


class Recording:
    """The records of a framework, of which spans without logs are observed once."""

    def __init__(self, name: str) -> None:
        files = sorted(file for folder in FOLDERS for file in folder.glob(f"{name}.*otlp.jsonl"))
        self.records = [one for file in files for one in read(file) if not isinstance(one, Problem)]
        self._logged = any(isinstance(one, LogRecord) for one in self.records)
        spans = [] if self._logged else [one for one in self.records if isinstance(one, Span)]
        self._observed = dict(zip(map(id, spans), observe(spans, {}), strict=True))

    def derived(self, change: Change = lambda one: one) -> list[Session]:
        """Return the sessions of the records, changed."""
        given = [new for one in self.records if (new := change(one)) is not None]
        spans = [one for one in given if isinstance(one, Span)]
        logs = [one for one in given if isinstance(one, LogRecord)]
        by_trace, logged = self._of_spans(spans) if not logs else observations_of([spans], logs, NO_SETTINGS)
        of_traces = traces_of(by_trace, logged)
        traces: dict[str, list[str]] = {}
        for one in of_traces:
            traces.setdefault(one.session_id, []).append(one.trace_id)
        session_by_trace = {one.trace_id: one.session_id for one in of_traces}
        counts = {one.trace_id: one.records for one in of_traces}
        return list(sessions_of(Recorded(by_trace, session_by_trace, counts, NO_SETTINGS), traces))

    def _of_spans(self, spans: list[Span]) -> tuple[dict[str, list[Observation]], Counter[str]]:
        new = [span for span in spans if id(span) not in self._observed]
        observed = {**self._observed, **dict(zip(map(id, new), observe(new, {}), strict=True))}
        by_trace: dict[str, list[Observation]] = {}
        for span in spans:
            by_trace.setdefault(span.trace_id, []).append(observed[id(span)])
        return by_trace, Counter()


def shown(sessions: list[Session], known: Sequence[Session] = ()) -> dict[str, Any]:
    """Return the leaves of sessions, each text short, without fields that are those of known sessions."""
    made = {}
    for number, (one, other) in enumerate(zip_longest(sessions, known[: len(sessions)])):
        for field in fields(one):
            value = getattr(one, field.name)
            if value != field.default and (other is None or value != getattr(other, field.name)):
                made[f"{number}/{field.name}"] = as_json(value)
    return {path: short(value) for path, value in leaves(made).items()} if made else {}


def short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MOST_CHARS:
        return f"{value[:MOST_CHARS]}… {hashlib.sha256(value.encode()).hexdigest()[:8]}"
    return value


def shortened(different: dict[str, Any]) -> dict[str, Any]:
    """Return the first differences, and a name for all others."""
    paths = sorted(different)
    if len(paths) <= MOST_PATHS:
        return different
    others = json.dumps([[path, different[path]] for path in paths[MOST_PATHS:]])
    more = f"{len(paths) - MOST_PATHS} more: {hashlib.sha256(others.encode()).hexdigest()[:8]}"
    return {**{path: different[path] for path in paths[:MOST_PATHS]}, "": more}


@cache
def family(key: str) -> str:
    return re.sub(r"\d+", "#", key)


def changed_values(key: str, change: Callable[[Any], Any], one: Record) -> Record:
    """Return a record in which the values of a key are changed; None leaves them out."""

    def of(attributes: dict[str, Any]) -> dict[str, Any]:
        new = {known: change(value) if family(known) == key else value for known, value in attributes.items()}
        return {known: value for known, value in new.items() if value is not None}

    if key not in keys_of(one):
        return one
    if isinstance(one, LogRecord):
        body = of(one.body) if isinstance(one.body, dict) else one.body
        return one._replace(attributes=of(one.attributes), body=body)
    events = [{**event, "attributes": of(event.get("attributes") or {})} for event in one.events]
    return one._replace(attributes=of(one.attributes), events=events)


def keys_of(one: Record) -> Iterator[str]:
    yield from map(family, one.attributes)
    if isinstance(one, LogRecord):
        yield from map(family, one.body if isinstance(one.body, dict) else ())
    else:
        yield from (family(key) for event in one.events for key in event.get("attributes") or ())


def parts(given: list[Record]) -> Iterator[tuple[tuple[str, str], str, Change]]:
    """Yield what stands for a part in all recordings, its name, and how a record is without it."""
    for scope, key in dict.fromkeys((str(one.scope_name), key) for one in given for key in keys_of(one)):
        yield (scope, key), f"{key} absent", partial(changed_values, key, lambda _: None)
        yield (scope, key), f"{key} empty", partial(changed_values, key, lambda value: EMPTY.get(type(value)))
    spans = [one for one in given if isinstance(one, Span)]
    for scope, name in dict.fromkeys((str(one.scope_name), family(one.name)) for one in spans):
        for what, change in SPANS.items():
            yield (scope, f"span {name}"), f"span {name} {what}", partial(changed_span, name, change)


def changed_span(name: str, change: Callable[[Span], Span | None], one: Record) -> Record | None:
    return change(one) if isinstance(one, Span) and family(one.name) == name else one


@cache
def tried() -> dict[str, list[str]]:
    """Return the parts that are tried in each recording: those that no earlier one has."""
    known: set[tuple[str, str]] = set()
    found: dict[str, list[str]] = {}
    for name in RECORDINGS:
        own = [(sign, part) for sign, part, _ in parts(recording(name).records) if sign not in known]
        known |= {sign for sign, _ in own}
        found[name] = [part for _, part in own]
    return found


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.short_form("name", 2)
def test_what_is_derived_of_a_recording_follows_from_each_of_its_parts(name: str) -> None:
    sessions = recording(name).derived()
    names = set(tried()[name])
    found = {}
    for _, part, change in parts(recording(name).records):
        if part in names:
            new = recording(name).derived(change)
            found[part] = shortened(difference(shown(sessions, new), shown(new, sessions)))
    compare(FOLDER / "recordings" / f"{name}.json", {"whole": shown(sessions), "parts": found})
