"""Spans that a recording should have and does not, and doubts that a session is one whole conversation.

A missing parent alone proves nothing: the parent of the topmost spans may be a caller's, a web front end
that exports elsewhere. A span is certainly missing only beneath what is recorded of an agent: where the
trace's root is an agent's run, so that every other span descends from it, or where a span ran during an
agent's run that it does not descend from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

from spangrade.converters.spans.observation import NO_EXCHANGE, ModelCall, Observation, RunSpan, TurnSpan
from spangrade.evaluator.derive.span_tree import Node, Tree
from spangrade.evaluator.derive.turns import Group

_Runs: TypeAlias = list[tuple[RunSpan | TurnSpan, str]]


def orphans(tree: Tree) -> list[Observation]:
    """Return the spans whose parent is not recorded."""
    if not tree.has_orphans:
        return []
    candidates = [o for o in tree.ordered if o.span.parent_span_id is not None and not tree.depth(o)]
    recorded = {o.span.node for o in tree.ordered}
    return [o for o in candidates if (o.span.trace_id, o.span.parent_span_id) not in recorded]


def cut_by_restart(tree: Tree) -> list[Observation]:
    """Return the spans whose parent has never arrived, and before which the receiver was restarted."""
    return [o for o in orphans(tree) if o.notes.restarted_ns is not None]


def missing_spans(tree: Tree) -> int:
    """Return how many parents of recorded spans are missing: beneath an agent's run, or since a restart."""
    orphans_by_trace: dict[str, list[Observation]] = {}
    for orphan in orphans(tree):
        orphans_by_trace.setdefault(orphan.span.trace_id, []).append(orphan)
    if not orphans_by_trace:
        return 0
    tops: dict[Node, str] = {}  # of each span, the id of its topmost ancestor
    runs: dict[str, _Runs] = {trace_id: [] for trace_id in orphans_by_trace}
    for observation in sorted(tree.ordered, key=tree.depth):
        parent = tree.parent(observation)
        top = observation.span.span_id if parent is None else tops[parent.span.node]
        tops[observation.span.node] = top
        if isinstance(observation, RunSpan | TurnSpan) and observation.span.trace_id in orphans_by_trace:
            runs[observation.span.trace_id].append((observation, top))
    missing = {
        (trace_id, orphan.span.parent_span_id)
        for trace_id, found in orphans_by_trace.items()
        for orphan in _beneath(found, runs[trace_id])
    }
    missing.update((o.span.trace_id, o.span.parent_span_id) for o in cut_by_restart(tree))
    return len(missing)


def _beneath(trace_orphans: list[Observation], runs: _Runs) -> Iterable[Observation]:
    """Return a trace's orphans that belong beneath its runs; each run comes with its topmost span's id."""
    if any(run.span.parent_span_id is None for run, _ in runs):
        return trace_orphans
    return _during(trace_orphans, runs)


def _during(trace_orphans: list[Observation], runs: _Runs) -> Iterator[Observation]:
    moments: list[tuple[int, bool, int, str, Observation]] = [
        *((run.span.start_ns, False, run.span.end_ns, top, run) for run, top in runs),
        *(
            (o.span.start_ns, True, max(o.span.start_ns, o.span.end_ns), o.span.span_id, o)
            for o in trace_orphans
        ),
    ]
    # Of the runs that started before, the latest ends under two topmost spans are enough: an orphan's own
    # runs do not count for it.
    latest_end: dict[str, int] = {}
    for _, is_orphan, end_ns, top, observation in sorted(moments, key=lambda moment: moment[:4]):
        if not is_orphan:
            latest_end[top] = max(end_ns, latest_end.get(top, 0))
            if len(latest_end) > 2:
                del latest_end[min(latest_end, key=lambda one: latest_end[one])]
        elif any(end_ns <= end for other, end in latest_end.items() if other != top):
            yield observation


def lacks_model_calls(groups: Sequence[Group], tree: Tree) -> bool:
    """Return whether model calls are not recorded, as far as their consequences show.

    In a turn whose model calls all have their outputs, more tools ran under the id of a call than were
    requested; or a run's tokens are more than those of all model calls. Another instrumentation may have
    removed calls. An agent that calls tools by itself gives them no ids.
    """
    return any(map(_has_unrequested_tools, groups)) or _has_more_tokens_above(tree)


def _has_unrequested_tools(group: Group) -> bool:
    calls = group.calls
    if not calls or not all(map(_has_output, calls)):
        return False
    executed = {tool.call_id for tool in group.tools if tool.call_id}
    return len(executed) > sum(len(call.exchange.tool_calls) for call in calls)


def _has_output(call: ModelCall) -> bool:
    """Return whether a model call's output is recorded with the calls that it requested."""
    return bool(call.exchange.response or call.exchange.tool_calls) and "text_only" not in call.traits


def _has_more_tokens_above(tree: Tree) -> bool:
    if "counts_its_calls" not in tree.index.traits:
        return False
    topmost = (
        run for run in tree.index.runs if "counts_its_calls" in run.traits and tree.nearest(run) is None
    )
    return bool(tree.model_calls) and sum(map(_tokens, topmost)) > sum(map(_tokens, tree.model_calls))


def _tokens(o: RunSpan | ModelCall) -> int:
    return (o.tokens.input_tokens or 0) + (o.tokens.output_tokens or 0)


IdentityDoubt = Literal["continues", "reused"]

_LONG_NS = 24 * 3600 * 10**9  # a person who comes back the same day goes on


def identity_doubt(
    id_source: Literal["conversation", "trace"], tree: Tree, groups: Sequence[Group]
) -> IdentityDoubt | None:
    """Return the doubt about a session's identity, None if there is none.

    `continues`: it has no conversation id and its first request repeats messages, or names a response, of
    which no trace is known. `reused`: its conversation id came again more than a day later with a request
    that repeats nothing of what was said before, in a session whose requests do so at other times, or has no
    other requests that could.
    """
    if id_source == "trace":
        first = next((call for call in tree.model_calls if call.digests is not None), None)
        return "continues" if first and first.digests and first.digests.history is not None else None
    return "reused" if _is_reused(groups) else None


def _is_reused(groups: Sequence[Group]) -> bool:
    again = False
    for before, after in pairwise(groups):
        repeats = _repeats(after)
        if after.members[0].span.start_ns - before.end_ns > _LONG_NS:
            again = again or repeats is False
        elif repeats is False:  # the conversation is kept by a server
            return False
    return again


def _repeats(group: Group) -> bool | None:
    """Return whether the first request of a turn repeats earlier messages; None if it is not recorded."""
    first = next(iter(group.calls), None)
    exchange = first.exchange if first is not None else NO_EXCHANGE
    if first is None or not exchange.user_messages:
        return None
    return exchange.user_messages > 1 or bool(
        exchange.previous_reply or exchange.repeated_calls or _continues(first)
    )


def _continues(call: ModelCall) -> bool:
    return bool(call.exchange.continues or (call.digests and call.digests.history))
