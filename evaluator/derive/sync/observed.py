"""From records to observations of traces: pure functions, for any process and any records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from spangrade.converters.spans.evaluations import evaluation_of_log
from spangrade.converters.spans.events import with_logs_of_trace
from spangrade.converters.spans.observation import (
    ModelCall,
    Observation,
    Structure,
)
from spangrade.converters.spans.registry import observe
from spangrade.converters.spans.values import first_identity
from spangrade.evaluator.derive.evaluations import with_scores
from spangrade.evaluator.derive.not_understood import counted
from spangrade.evaluator.derive.settings import Settings
from spangrade.evaluator.derive.span_tree import Node, Tree
from spangrade.evaluator.derive.sync.link_traces import Position, position_of
from spangrade.tracer.semconv import SCOPE_OF_WATCH
from spangrade.tracer.span import LogRecord, Span


class Trace(NamedTuple):
    """A trace: the session that its own records name, and its position in a conversation.

    `not_understood` is, by scope, the number of spans that no dialect understood, and of those of tools,
    with the id of one.
    """

    trace_id: str
    session_id: str
    records: int
    position: Position
    not_understood: tuple[tuple[str, int, int, str], ...]


Observed = tuple[Trace, Sequence[Observation]]


def observe_records(
    spans: Iterable[Sequence[Span]], logs: Iterable[LogRecord], settings: Settings
) -> list[Observed]:
    """Return each trace with its observations, given its spans (in batches) and their logs."""
    by_trace, logs_by_trace = observations_of(spans, logs, settings)
    return [(trace, by_trace[trace.trace_id]) for trace in traces_of(by_trace, logs_by_trace)]


def observations_of(
    spans: Iterable[Sequence[Span]], logs: Iterable[LogRecord], settings: Settings
) -> tuple[dict[str, list[Observation]], Counter[str]]:
    """Return the observations of spans (in batches), and the number of logs, by trace."""
    logs_by_trace: dict[str, list[LogRecord]] = {}
    for log in logs:
        if log.trace_id:
            logs_by_trace.setdefault(log.trace_id, []).append(log)
    by_node: dict[Node, Observation] = {}
    ends: dict[Node, tuple[int, int]] = {}
    session_ids: dict[Node, str] = {}
    by_span = _by_span(logs_by_trace.values())
    for batch in spans:
        for span, observation in zip(batch, observe(batch, by_span, settings.dialects), strict=True):
            node, end = (span.trace_id, span.span_id), (span.end_ns, -span.start_ns)
            # The database has one span of an id, unless it came with different start times.
            if ends.setdefault(node, end) > end:
                continue
            ends[node] = end
            by_node[node] = observation
            if observation.notes.not_understood in settings.ignored_scopes:
                by_node[node] = observation._replace(notes=observation.notes._replace(not_understood=None))
            if settings.session_from:
                session_ids[node] = session_id_of(span, settings.session_from) or ""
    by_trace: dict[str, list[Observation]] = {trace_id: [] for trace_id in logs_by_trace}
    for (trace_id, _), observation in by_node.items():
        by_trace.setdefault(trace_id, []).append(observation)
    for trace_id in {trace_id for (trace_id, _), found in session_ids.items() if found}:
        by_trace[trace_id] = [
            o._replace(
                session=o.session._replace(conversation_id=session_ids[trace_id, o.span.span_id] or None)
            )
            for o in by_trace[trace_id]
        ]
    for trace_id, of_trace in logs_by_trace.items():
        by_trace[trace_id] = with_logs_of_trace(by_trace[trace_id], of_trace)
        logged = [(log.span_id, score) for log in of_trace if (score := evaluation_of_log(log))]
        if logged and by_trace[trace_id]:
            by_trace[trace_id] = with_scores(by_trace[trace_id], logged)
    counts = {
        trace_id: sum(log.scope_name != SCOPE_OF_WATCH for log in of_trace)
        for trace_id, of_trace in logs_by_trace.items()
    }
    return by_trace, Counter(counts)


def _by_span(logs_of_traces: Iterable[Iterable[LogRecord]]) -> dict[Node, list[LogRecord]]:
    """Return the logs of spans, each span's by time, and those with equal times by arrival.

    Some languages log all messages of a call with one time, in the order of the messages.
    """
    by_span: dict[Node, list[LogRecord]] = {}
    for log in chain.from_iterable(logs_of_traces):
        if log.trace_id and log.span_id:
            by_span.setdefault((log.trace_id, log.span_id), []).append(log)
    for logs in by_span.values():
        logs.sort(key=lambda log: log.time_ns)
    return by_span


def traces_of(by_trace: Mapping[str, Sequence[Observation]], logs_by_trace: Mapping[str, int]) -> list[Trace]:
    """Return traces, given their observations and the number of their logs."""
    traces = []
    for trace_id, observations in by_trace.items():
        session_id = session_id_of_trace(trace_id, observations)
        is_named = session_id != trace_id or any(o.session.conversation_id for o in observations)
        traces.append(
            Trace(
                trace_id,
                session_id,
                len(observations) + logs_by_trace[trace_id],
                position_of(observations, session_id if is_named else None),
                counted(observations),
            )
        )
    return traces


def session_id_of_trace(trace_id: str, observations: Sequence[Observation]) -> str:
    """Return the id of the session that a trace belongs to: the conversation id nearest the trace's root.

    A sub-agent that is run as a tool may carry an id of its own. In a trace without any, it is the one value
    of the attributes that may hold an id. A trace without that is its own session.
    """
    ids = {o.session.conversation_id for o in observations if o.session.conversation_id}
    if len(ids) == 1:
        return ids.pop()
    if not ids:
        return _only_candidate(observations) or trace_id
    tree = Tree(observations)
    with_id = [o for o in tree.ordered if o.session.conversation_id]
    return min(with_id, key=tree.depth).session.conversation_id or trace_id


def session_id_of(span: Span, attributes: Iterable[str]) -> str | None:
    """Return the session id in the first of the attributes that a span, or else its resource, has."""
    return first_identity(span.attributes.get(name, span.resource.get(name)) for name in attributes)


def _only_candidate(observations: Sequence[Observation]) -> str | None:
    """Return the value that may be a session's id in a trace with a model call, if there is only one.

    One that only spans have which are not an agent's work counts only if one of them is around a model call.
    """
    found = [o for o in observations if o.session.session_candidates]
    calls = [o.span for o in observations if isinstance(o, ModelCall)] if found else []
    if not calls:
        return None
    parents = {o.span.span_id: o.span.parent_span_id for o in observations}
    around: set[str | None] = set()
    for call in calls:
        above = call.parent_span_id
        while above is not None and above not in around:
            around.add(above)
            above = parents.get(above)
    values = {value for o in found for value in o.session.session_candidates}
    of_work = any(not isinstance(o, Structure) or o.span.span_id in around for o in found)
    return values.pop() if len(values) == 1 and of_work else None
