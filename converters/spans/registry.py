"""The installed dialects, in the order in which they are tried: the first that claims a span reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

from spangrade.converters.spans.agent_names import with_agent
from spangrade.converters.spans.agent_spans import is_other_operation, looks_like_an_agents
from spangrade.converters.spans.checked import checked
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.evaluations import evaluations_of
from spangrade.converters.spans.histories import forget_histories
from spangrade.converters.spans.logs import with_logs
from spangrade.converters.spans.observation import Observation
from spangrade.converters.spans.reading import Reading, observation_of
from spangrade.converters.spans.session_attributes import with_session_attributes
from spangrade.converters.spans.session_candidates import session_candidates
from spangrade.converters.spans.structure import (
    completed_by_structure,
    has_kind,
    outcome_of_tool,
    read_by_structure,
)
from spangrade.converters.spans.values import text
from spangrade.converters.spans.vendor import Vendor, dialect_of_vendor
from spangrade.tracer import semconv
from spangrade.tracer.canonical_json import json_value
from spangrade.tracer.errors import type_name
from spangrade.tracer.plugins import Plugin, plugins
from spangrade.tracer.span import LogRecord, Span

GROUP = "spangrade.dialects"
FALLBACK = "genai"
_OURS = "spangrade."  # the package of our own
_NO_CALLS = frozenset({"other", "workflow"})
_OF_CALLS = frozenset({semconv.INPUT_MESSAGES, semconv.OUTPUT_MESSAGES, semconv.INPUT_TOKENS})
_COUNTS_TOKENS = frozenset({"llm", "agent", "workflow", "turn"})
_OF_BUSES = frozenset({"messaging.system", "messaging.operation", "messaging.destination"})
_TOKENS = "token"  # in the name of an attribute that counts tokens
_MOST_NAMES = 4096
_not_counts: set[str] = set()  # the names of attributes that were looked at and count no tokens
_MAX_SIGNS = 1024  # combinations of signs whose candidates are remembered

# https://opentelemetry.io/docs/specs/otel/trace/tracestate-handling/: a threshold above 0 drops traces.
# The other two are the tracer's (tracer/sampling.py).
_SAMPLED = re.compile(r"(^|,)\s*(ot=([^,]*;)?th:0*[1-9a-f]|spangrade=partial)")
_SAMPLE_RATIO = re.compile(r"(?:^|,)\s*spangrade=conversation:(0\.\d+|[01]|[1-9](?:\.\d+)?e-\d+)\s*(?:,|$)")


@cache
def dialects() -> Mapping[str, Dialect]:
    """Return the installed dialects by name, in the order in which they are tried.

    Those of other packages come first, by name; then spangrade's own, each before those of its `before`, else
    by name; `FALLBACK` reads the rest. Raises InputError if one cannot be loaded or is not a dialect, or if
    two have the same name.
    """
    found: dict[str, Dialect] = {}
    for plugin in plugins(GROUP):
        if plugin.name in found:
            raise plugin.error("another dialect has the same name")
        found[plugin.name] = _dialect(plugin)
    ours = {name: each for name, each in found.items() if name in own_names()}
    others = (name for name in found if name not in ours)
    return {name: found[name] for name in (*others, *_in_order(ours))}


@cache
def own_names() -> frozenset[str]:
    """Return the names of spangrade's own dialects."""
    return frozenset(plugin.name for plugin in plugins(GROUP) if plugin.point.value.startswith(_OURS))


def dialect_of(span: Span) -> Dialect:
    """Return the dialect that reads a span."""
    return next(each for each in dialects().values() if each.claims(span))


def _dialect(plugin: Plugin) -> Dialect:
    """Return the dialect of an entry point: a module's `DIALECT`, or one of its two functions."""
    loaded: Any = plugin.load()
    dialect = getattr(loaded, "DIALECT", loaded)
    if isinstance(dialect, Dialect):
        return dialect._replace(name=plugin.name)
    claims, read, signs = (getattr(loaded, name, None) for name in ("claims", "read", "SIGNS"))
    if not (callable(claims) and callable(read)):
        raise plugin.error("expected a module with DIALECT, a Dialect of spangrade.converters.spans.dialect")
    if not isinstance(signs, Signs | None):
        raise plugin.error("expected SIGNS to be a Signs of spangrade.converters.spans.dialect")
    return Dialect(plugin.name, read, signs, only_if=claims)


def _in_order(ours: Mapping[str, Dialect]) -> Iterator[str]:
    """Yield the names of dialects, each before those that it names, else by name; the fallback last."""
    after: dict[str, set[str]] = {name: set() for name in ours}
    for name, dialect in ours.items():
        for later in dialect.before:
            after[later].add(name)
    after[FALLBACK] = after.keys() - {FALLBACK}
    sorter = TopologicalSorter(after)
    sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        yield from ready
        sorter.done(*ready)


class _Candidate(NamedTuple):
    dialect: Dialect
    is_ours: bool


class _Candidates:
    """The dialects that may claim a span, in their order: those whose signs it has, and those without signs.

    Trying each of 22 dialects took 3.6 µs per span, looking for signs takes 0.9.
    """

    def __init__(self, tried: Sequence[Dialect]) -> None:
        own = own_names()
        self._all = [_Candidate(dialect, dialect.name in own) for dialect in tried]
        signs = [dialect.signs for dialect in tried if dialect.signs is not None]
        self._attributes = frozenset[str]().union(*(each.attributes for each in signs))
        self._name_prefixes = tuple(prefix for each in signs for prefix in each.name_prefixes)
        self._with_signs_of = lru_cache(_MAX_SIGNS)(self._with)

    def of(self, span: Span) -> Sequence[_Candidate]:
        """Return the dialects that may claim a span."""
        attributes = self._attributes.intersection(span.attributes)
        named = span.name if span.name.startswith(self._name_prefixes) else ""
        return self._with_signs_of(span.scope_name, attributes, named)

    def _with(self, scope: str | None, attributes: frozenset[str], name: str) -> Sequence[_Candidate]:
        signs = Span(
            "", "", None, name, "INTERNAL", 0, 0, attributes=dict.fromkeys(attributes), scope_name=scope
        )
        return [
            each
            for each in self._all
            if (each.dialect.signs is None or each.dialect.signs.are_on(signs))
            # The tracer's own spans follow the conventions whatever attributes a user adds to them.
            and not (scope == semconv.SCOPE and each.is_ours and each.dialect.name != FALLBACK)
        ]


def observe(
    spans: Iterable[Span],
    logs: Mapping[tuple[str, str], Sequence[LogRecord]],
    vendors: Sequence[Vendor] = (),
) -> list[Observation]:
    """Return what spans record, each with the logs recorded under its (trace id, span id); see `readings`."""
    return list(map(observation_of, readings(spans, logs, vendors)))


def readings(
    spans: Iterable[Span],
    logs: Mapping[tuple[str, str], Sequence[LogRecord]],
    vendors: Sequence[Vendor] = (),
) -> Iterator[Reading]:
    """Yield what the dialects read of spans, each with the logs recorded under its (trace id, span id).

    The dialects of `vendors` come before the installed ones. A span that a dialect fails to read is of kind
    "other", and `unreadable` gives the reason.
    """
    candidates = _Candidates([*map(dialect_of_vendor, vendors), *dialects().values()])
    for span in spans:
        if span.scope_name == semconv.SCOPE_OF_USER:
            yield with_session_attributes(_of_simulated_user(span), span)
            continue
        name = FALLBACK
        own_logs = logs.get((span.trace_id, span.span_id), ())
        try:
            for dialect, is_ours in candidates.of(span):
                name = dialect.name
                if dialect.only_if is None or dialect.only_if(span):
                    reading = dialect.read(span, own_logs)
                    if not is_ours:
                        reading = checked(reading, span)
                    if name == FALLBACK:
                        reading = _by_structure(reading, span)
                    elif reading.kind in _NO_CALLS and is_ours and not dialect.repeats_calls:
                        reading = _not_lowered(reading, span)
                    break
            reading = _completed(reading, span, own_logs)
            if reading.kind in _COUNTS_TOKENS and (wrong := _negative_count(span.attributes)):
                reading = reading._replace(unreadable=(name, wrong))
            reading = with_session_attributes(reading, span)
            if semconv.FAULT in span.attributes:
                reading = reading._replace(fault=text(span.attributes[semconv.FAULT]))
            if semconv.UNFINISHED in span.attributes:
                reading = reading._replace(unfinished=text(span.attributes[semconv.UNFINISHED]))
            if semconv.DRIVEN in span.attributes:
                reading = reading._replace(driven=text(span.attributes[semconv.DRIVEN]))
            if reading.conversation_id is None and (
                candidates_of := session_candidates(span.attributes, reading.kind, span.resource)
            ):
                reading = reading._replace(session_candidates=candidates_of)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (third-party code: other packages' dialects)
            reading = _unreadable(span, name, error)
        if (evaluations := evaluations_of(span)) and reading.unreadable is None:
            # A span that records a score and no step is understood.
            reading = reading._replace(evaluations=evaluations, not_understood=None)
        yield _with_sampling(reading, span.trace_state) if span.trace_state else reading
    forget_histories()


def _completed(reading: Reading, span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Return a reading with what holds for the spans of all dialects."""
    if reading.kind != "other":
        reading = with_agent(reading, span)
        if reading.kind == "llm" and not _OF_BUSES.isdisjoint(span.attributes):
            reading = reading._replace(of_bus=True)
    return with_logs(reading, logs) if logs else reading


def _of_simulated_user(span: Span) -> Reading:
    """Return what a simulated user's own span records: nothing of the agent."""
    return Reading(
        "other",
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        span.start_ns,
        span.end_ns,
        conversation_id=text(span.attributes.get(semconv.CONVERSATION_ID)),
        question_id=text(span.attributes.get(semconv.QUESTION_ID)),
        simulated_message=text(span.attributes.get(semconv.SIMULATED_MESSAGE)) or "",
    )


def _negative_count(attributes: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a span's counts of tokens: that one is negative."""
    for name in attributes.keys() - _not_counts:
        value = attributes[name]
        if _TOKENS not in name.lower():
            if len(_not_counts) < _MOST_NAMES:
                _not_counts.add(name)
        elif isinstance(value, int | float) and value < 0:
            return f"ValueError: {name} is {value}"
    return None


def _not_lowered(reading: Reading, span: Span) -> Reading:
    """Return a span that is a model call by the conventions as one, whatever a dialect made of it."""
    attributes = span.attributes
    if semconv.OPERATION_NAME not in attributes:
        return _by_content(reading, span) if reading.kind == "other" else reading
    if _OF_CALLS.isdisjoint(attributes):
        return reading
    call = genai.read_attributes(span, attributes)
    if call.kind != "llm" or (call.by_content and reading.kind != "other"):
        return reading
    return call._replace(
        conversation_id=call.conversation_id or reading.conversation_id,
        user_id=call.user_id or reading.user_id,
    )


def _by_content(reading: Reading, span: Span) -> Reading:
    """Return what a span records whose kind has a name that its dialect does not know, if it is a call."""
    is_known = is_other_operation(span.attributes) or reading.sums_up is not None
    if is_known or not has_kind(span.attributes):
        return reading
    read = read_by_structure(span, span.attributes)
    if read is None or read.kind == "other" or not (read.by_shape or read.by_content):
        return reading
    return read._replace(
        conversation_id=read.conversation_id or reading.conversation_id,
        not_understood=reading.not_understood,
    )


def _by_structure(reading: Reading, span: Span) -> Reading:
    """Return what a span records that no dialect understands, by its structure; else marked as such.

    One that the conventions understand is completed by what it has under other names.
    """
    if reading.kind != "other":
        return reading if span.scope_name == semconv.SCOPE else completed_by_structure(reading, span)
    if outcome := outcome_of_tool(reading, span):
        return outcome
    if not is_other_operation(span.attributes):
        read = read_by_structure(span, span.attributes)
        if read is not None and not read.by_shape:
            return read
        if looks_like_an_agents(span):
            return (read or reading)._replace(not_understood=span.scope_name or "")
        return read or reading
    return reading


def _with_sampling(reading: Reading, trace_state: str) -> Reading:
    ratio = _SAMPLE_RATIO.search(trace_state)
    return reading._replace(
        sampled=_SAMPLED.search(trace_state) is not None, sample_ratio=float(ratio[1]) if ratio else None
    )


def _unreadable(span: Span, dialect: str, error: BaseException) -> Reading:
    return Reading(
        "other",
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        span.start_ns,
        span.end_ns,
        unreadable=(dialect, error_line(error)),
    )


def error_line(error: BaseException) -> str:
    """Return an exception's type and message in one line of at most 300 characters."""
    message = " ".join(str(json_value(error)).split())
    name = type_name(error)
    return f"{name}: {message}"[:300] if message else name
