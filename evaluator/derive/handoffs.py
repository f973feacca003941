"""Hand-offs: which tool calls only transfer control to another agent, and from where to where."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import orjson

from spangrade.converters.spans.observation import ToolUse
from spangrade.evaluator.derive.span_tree import Tree
from spangrade.evaluator.session import ToolInteraction

_NUMBER = re.compile(r"_\d+$")


class _Transfer(NamedTuple):
    start_ns: int
    trace_id: str
    source: str | None
    target: str | None


def handoffs(
    tree: Tree, tools: Sequence[ToolUse], tool_interactions: Sequence[ToolInteraction]
) -> tuple[tuple[str | None, str], ...] | None:
    """Return (from, to) for every transfer of control, in order; one that is recorded twice counts once.

    None if several agents ran and no model call is recorded, which would request the transfers. Where neither
    arguments nor name give the target, it is the agent that started next. `tools` are the
    observations of `tool_interactions`, in the same order.
    """
    starts = [(run.span.start_ns, run.name) for run in tree.agents if run.name]
    agents = {normalized_name(name): name for _, name in starts}
    transfers = [
        *_from_tools(tools, tool_interactions),
        *_from_spans(tree, agents),
    ]
    if not transfers and len(agents) > 1:
        transfers = list(_from_requests(tree, starts))
        if not transfers and not tree.model_calls:
            return None
    result: list[tuple[str, str | None, str]] = []
    for transfer in sorted(transfers, key=lambda t: t.start_ns):
        target = transfer.target or _first_started(starts, transfer.start_ns)
        if target is not None:
            handoff = (transfer.trace_id, transfer.source, _named(target, agents))
            if not result or not _same(result[-1], handoff):
                result.append(handoff)
            elif result[-1][1] is None:
                result[-1] = handoff
    return tuple((source, target) for _, source, target in result)


def _same(one: tuple[str, str | None, str], other: tuple[str, str | None, str]) -> bool:
    """Return whether two transfers after each other are one that two spans record, one without its source."""
    sources = (one[1], other[1])
    targets = normalized_name(one[2]), normalized_name(other[2])
    return one[0] == other[0] and targets[0] == targets[1] and (None in sources or sources[0] == sources[1])


def _named(target: str, agents: Mapping[str, str]) -> str:
    """Return the name of the agent that is the target, which a tool's name may have with a number (AG2)."""
    name = normalized_name(target)
    return agents.get(name) or agents.get(_NUMBER.sub("", name)) or target


def _first_started(starts: Sequence[tuple[int, str]], since_ns: int) -> str | None:
    """Return the first agent that started at a time or later, given all (start, name) in order."""
    position = bisect_left(starts, since_ns, key=lambda start: start[0])
    return starts[position][1] if position < len(starts) else None


def _from_tools(
    tools: Sequence[ToolUse], tool_interactions: Sequence[ToolInteraction]
) -> Iterator[_Transfer]:
    for observation, tool in zip(tools, tool_interactions, strict=True):
        if tool.handoff:
            target = observation.handoff_to or handoff_target(tool.tool_name, observation.arguments)
            yield _Transfer(tool.start_ns, tool.trace_id, tool.agent, target)


def _from_spans(tree: Tree, agents: Mapping[str, str]) -> Iterator[_Transfer]:
    """Yield the transfers that have a span of their own; one to another kind of node is a graph's step."""
    for o in tree.index.handoffs:
        if not agents or not o.handoff_to or normalized_name(o.handoff_to) in agents:
            yield _Transfer(o.span.start_ns, o.span.trace_id, tree.agent_of(o), o.handoff_to)


def _from_requests(tree: Tree, starts: Iterable[tuple[int, str]]) -> Iterator[_Transfer]:
    """Yield the transfers that a model requested, to an agent that then started."""
    last_start = {normalized_name(name): at for at, name in starts}
    for o in tree.model_calls:
        for call in o.exchange.tool_calls:
            if call.name and is_handoff(call.name):
                target = handoff_target(call.name, call.arguments)
                started = last_start.get(normalized_name(target)) if target else None
                if started is not None and started >= o.span.start_ns:
                    yield _Transfer(o.span.start_ns, o.span.trace_id, tree.agent_of(o), target)


def is_handoff(tool_name: str) -> bool:
    """Return whether a tool of this name only transfers control to another agent."""
    return tool_name == "handoff" or tool_name.startswith(
        ("transfer_to_", "handoff_to_", "transfer_back_to_")
    )


def handoff_target(tool_name: str, arguments: str | None) -> str | None:
    """Return the agent that a hand-off names: in its arguments (JSON text), else in the tool's name."""
    value = None if arguments is None else orjson.loads(arguments)
    if isinstance(value, Mapping):
        for key in ("agent_name", "to_agent", "agent", "to"):
            if isinstance(value.get(key), str):
                return str(value[key])
    if tool_name in {"transfer_to_agent", "handoff_to_agent", "handoff"}:
        return None
    return (
        tool_name.removeprefix("transfer_back_to_").removeprefix("transfer_to_").removeprefix("handoff_to_")
        or None
    )


@lru_cache(maxsize=4096)  # the same few names in every session
def normalized_name(name: str) -> str:
    """Return an agent's name in the form that the names of tools use: lower case, underscores."""
    return "".join(c if c.isalnum() else "_" for c in name.lower())
