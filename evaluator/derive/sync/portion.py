"""A portion of spans and what it comes to on its own: a pure function, so that any process can compute it.

Whether other spans belong to the same sessions is not known here: `affected.py` decides what can be kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import nanoarrow as na

from spangrade.converters.spans.evaluations import Evaluation, evaluation_of_log
from spangrade.converters.spans.observation import Observation
from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive.build_session import session_of
from spangrade.evaluator.derive.evaluations import with_scores
from spangrade.evaluator.derive.not_understood import counted
from spangrade.evaluator.derive.schema import TABLES
from spangrade.evaluator.derive.session_from import session_id_of, with_session_ids
from spangrade.evaluator.derive.session_rows import rows_of
from spangrade.evaluator.derive.settings import NO_SETTINGS, Settings
from spangrade.evaluator.derive.span_tree import Tree
from spangrade.evaluator.derive.sync.kept import Packed, packed, unpacked
from spangrade.evaluator.derive.sync.link_traces import Position, position_of
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store.arrow import arrow_rows

State = Mapping[str, Sequence[tuple[int, Mapping[str, Any]]]]
NO_SCORES: Mapping[str, Sequence[Evaluation]] = MappingProxyType({})


class Place(NamedTuple):
    """Where a trace belongs as far as its own records show, and how many records that are.

    `not_understood` is the number of spans that no dialect understood, by scope.
    """

    trace_id: str
    session_id: str
    records: int
    position: Position
    not_understood: tuple[tuple[str, int], ...]


class Portion(NamedTuple):
    """The traces of a portion, and the sessions that they make: their ids, and their rows by table.

    The rows are Arrow tables. Their `batch` is 0: it is known when they are written. `kept` are the
    observations of its traces (see `compact`), in case that their sessions must be built again. `settings`
    are those by which spans were read.
    """

    places: list[Place]
    session_ids: list[str]
    rows: dict[str, na.Array]
    kept: Mapping[str, Packed]
    settings: Settings


def portion_of(
    spans: Iterable[Sequence[Span]],
    logs: Iterable[LogRecord] = (),
    settings: Settings = NO_SETTINGS,
    without: Collection[str] = (),
) -> Portion:
    """Return what spans (in batches) and their logs come to. The sessions `without` are not built."""
    by_trace, records = observed(spans, logs, settings)
    session_by_trace = {
        trace_id: session_id(trace_id, observations) for trace_id, observations in by_trace.items()
    }
    places = places_of(by_trace, records, session_by_trace)
    return Portion(places, *_built(by_trace, session_by_trace, {}, settings, without), by_trace, settings)


def places_of(
    by_trace: Mapping[str, Sequence[Observation]],
    records: Mapping[str, int],
    session_by_trace: Mapping[str, str],
) -> list[Place]:
    """Return the places of traces, given the ids of the sessions that they belong to by their own records."""
    return [
        Place(
            trace_id,
            session_by_trace[trace_id],
            records[trace_id],
            position_of(observations, _conversation_id(trace_id, observations, session_by_trace[trace_id])),
            counted(observations),
        )
        for trace_id, observations in by_trace.items()
    ]


def compact(portion: Portion, without: Collection[str]) -> Portion:
    """Return a portion that keeps only the observations of some sessions, for another process."""
    kept = {
        place.trace_id: content
        for place in portion.places
        if place.session_id in without and (content := packed(portion.kept[place.trace_id])) is not None
    }
    return portion._replace(kept=kept)


class Complete(NamedTuple):
    """All that sessions come from: observations by trace, the traces' sessions, state and scores of logs."""

    by_trace: Mapping[str, Packed]
    session_by_trace: Mapping[str, str]
    state: State
    settings: Settings
    scores: Mapping[str, Sequence[Evaluation]]


def portion_of_sessions(complete: Complete) -> Portion:
    """Return what whole sessions come to; without the places of their traces."""
    known = {trace_id: unpacked(content) for trace_id, content in complete.by_trace.items()}
    built = _built(
        known, complete.session_by_trace, complete.state, complete.settings, scores=complete.scores
    )
    return Portion([], *built, {}, complete.settings)


def _built(
    by_trace: Mapping[str, Sequence[Observation]],
    session_by_trace: Mapping[str, str],
    state: State,
    settings: Settings,
    without: Collection[str] = (),
    scores: Mapping[str, Sequence[Evaluation]] = NO_SCORES,
) -> tuple[list[str], dict[str, na.Array]]:
    """Return the ids and the rows of the sessions of traces."""
    by_session: dict[str, list[Observation]] = {}
    for trace_id, observations in by_trace.items():
        if session_by_trace[trace_id] not in without:
            by_session.setdefault(session_by_trace[trace_id], []).extend(observations)
    sessions = [
        session_of(
            one,
            "trace" if one in by_trace else "conversation",
            observations,
            state.get(one, ()),
            settings.prices,
            scores.get(one, ()),
        )
        for one, observations in by_session.items()
        # A trace without an agent's work (a web server's, a protocol's) is not a session.
        if any((o.kind != "other" and not o.of_protocol) or o.unreadable for o in observations)
    ]
    rows = {
        table: arrow_rows(rows, TABLES[table].arrow_types)
        for table, rows in rows_of(sessions, batch=0).items()
        if rows
    }
    return [session.session_id for session in sessions], rows


def _conversation_id(trace_id: str, observations: Iterable[Observation], session_id: str) -> str | None:
    """Return the id of a trace's session if the trace records it."""
    is_recorded = session_id != trace_id or any(o.conversation_id for o in observations)
    return session_id if is_recorded else None


def observed(
    spans: Iterable[Sequence[Span]], logs: Iterable[LogRecord], settings: Settings
) -> tuple[dict[str, list[Observation]], Counter[str]]:
    """Return by trace the observations, and the number of records."""
    by_trace: dict[str, list[Observation]] = {}
    by_span: dict[tuple[str, str], list[LogRecord]] = {}
    scores: dict[str, list[tuple[str | None, Evaluation]]] = {}
    records: Counter[str] = Counter()
    for log in logs:
        if log.trace_id:
            records[log.trace_id] += 1
            if score := evaluation_of_log(log):
                scores.setdefault(log.trace_id, []).append((log.span_id, score))
            if log.span_id:
                by_span.setdefault((log.trace_id, log.span_id), []).append(log)
    attributes, ignored, _ = settings
    session_ids: dict[str, dict[str, str]] = {}
    for batch in spans:
        for observation in observe(batch, by_span):
            if observation.not_understood in ignored:
                observation = observation._replace(not_understood=None)
            by_trace.setdefault(observation.trace_id, []).append(observation)
        for span in batch if attributes else ():
            if found := session_id_of(span, attributes):
                session_ids.setdefault(span.trace_id, {})[span.span_id] = found
    for trace_id, ids_by_span in session_ids.items():
        by_trace[trace_id] = with_session_ids(by_trace[trace_id], ids_by_span)
    for trace_id, logged in scores.items():
        if trace_id in by_trace:
            by_trace[trace_id] = with_scores(by_trace[trace_id], logged)
    for trace_id in records:  # traces of logs alone
        by_trace.setdefault(trace_id, [])
    for trace_id, observations in by_trace.items():
        records[trace_id] += len(observations)
    return by_trace, records


def session_id(trace_id: str, observations: Sequence[Observation]) -> str:
    """Return the id of the session that a trace belongs to: the conversation id nearest the trace's root.

    A sub-agent that is run as a tool may carry an id of its own. In a trace without any, it is the one value
    of the attributes that may hold an id. A trace without that is its own session.
    """
    ids = {o.conversation_id for o in observations if o.conversation_id}
    if len(ids) == 1:
        return ids.pop()
    if not ids:
        return _only_candidate(observations) or trace_id
    tree = Tree(observations)
    with_id = [o for o in tree.ordered if o.conversation_id]
    return min(with_id, key=tree.depth).conversation_id or trace_id


def _only_candidate(observations: Sequence[Observation]) -> str | None:
    """Return the value that may be a session's id in a trace with a model call, if there is only one."""
    values = {value for o in observations for value in o.session_candidates}
    return values.pop() if len(values) == 1 and any(o.kind == "llm" for o in observations) else None
