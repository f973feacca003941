"""The failures of a session, each where it began."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from spangrade.converters.spans.observation import (
    Handoff,
    ModelCall,
    Observation,
    RunSpan,
    Structure,
    ToolUse,
)
from spangrade.evaluator.derive.span_tree import Node, Tree
from spangrade.evaluator.session import Error, ToolInteraction

_Messages = dict[str | None, None]  # a set that keeps the order
_MAX_MESSAGES = 100  # different ones, the nearest, that a failure around them is compared with


def errors(tree: Tree, tool_interactions: Sequence[ToolInteraction]) -> tuple[Error, ...]:
    """Return each failure once: a span that only repeats the failure of an inner one is left out.

    A failure of a span that is not an agent's work (HTTP, a database) is that of the span around it.
    """
    failed_tools = [tool for tool in tool_interactions if tool.ok is False]
    if not failed_tools and not any(o.failure is not None for o in tree.ordered):
        return ()
    found: list[tuple[int, Error]] = []
    tool_errors = {(tool.trace_id, tool.span_id): tool.error for tool in failed_tools}
    messages_inside: dict[Node, _Messages] = {}
    repeating: set[tuple[str, str | None]] = set()  # tools in which an agent failed
    for observation in reversed(tree.ordered):
        node = observation.span.node
        inside = messages_inside.pop(node, {})
        message = tool_errors.get(node, observation.failure.error if observation.failure else None)
        failed = not isinstance(observation, Structure) and (
            observation.failure is not None or node in tool_errors
        )
        if node in tool_errors and message and None not in inside and _repeats(message, inside):
            repeating.add(node)
        if failed and not isinstance(observation, ToolUse) and not _repeats(message, inside):
            found.append((observation.span.start_ns, Error(_where(observation, tree), message, *node)))
        parent = tree.parent(observation)
        if parent is not None and (inside or failed):
            if failed:
                inside[message] = None
                if node in tool_errors and observation.failure and observation.failure.error:
                    inside[observation.failure.error] = None  # a code that spans around it repeat
            _add(messages_inside, parent.span.node, inside)
    found += [
        (tool.start_ns, Error(f"tool {tool.tool_name}", tool.error, tool.trace_id, tool.span_id))
        for tool in failed_tools
        if (tool.trace_id, tool.span_id) not in repeating
    ]
    return tuple(error for _, error in sorted(found, key=lambda item: item[0]))


def _where(observation: Observation, tree: Tree) -> str:
    match observation:
        case ModelCall():
            return f"llm {observation.model}"
        case Handoff():
            at_ns = observation.span.start_ns
            started = (run.name for run in tree.agents if run.span.start_ns >= at_ns)
            return f"handoff {observation.handoff_to or next(filter(None, started), None)}"
        case RunSpan():
            is_named = observation.is_agent and observation.name
            named = observation.span.name or observation.name
            return f"agent {observation.name}" if is_named else f"run {named}"
    return f"run {observation.span.name or observation.agent}"


def without_copies(observations: Iterable[Observation]) -> list[Observation]:
    """Return observations without the failures that an instrumentation copied from an earlier span.

    Some write a failed span's status and message on later ones too; only the original has an exception event.
    """
    observed = list(observations)
    raised: dict[tuple[str, str | None], int] = {}
    for o in observed:
        if o.failure and o.failure.raised and o.failure.error:
            key = (o.span.trace_id, o.failure.error)
            raised[key] = min(o.span.end_ns, raised.get(key, o.span.end_ns))
    return [o._replace(failure=None) if _is_copy(o, raised) else o for o in observed] if raised else observed


def _is_copy(o: Observation, raised: Mapping[tuple[str, str | None], int]) -> bool:
    if o.failure is None or o.failure.raised:
        return False
    ended_ns = raised.get((o.span.trace_id, o.failure.error))
    return ended_ns is not None and ended_ns <= o.span.start_ns


def _repeats(message: str | None, inside: Iterable[str | None]) -> bool:
    return any(m is None or message is None or m in message or message in m for m in inside)


def _add(messages: dict[Node, _Messages], node: Node, inside: _Messages) -> None:
    """Add to the messages inside a node those inside one of its children."""
    known = messages.setdefault(node, inside)
    if known is not inside:
        known.update(inside)
    if None in known:  # what repeats an unknown message is unknown: no other matters
        known.clear()
        known[None] = None
    while len(known) > _MAX_MESSAGES:
        del known[next(iter(known))]
