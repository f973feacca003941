"""One session from its observations: a pure function, whatever the order in which spans came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive import tool_calls
from spangrade.evaluator.derive.completeness import missing_spans
from spangrade.evaluator.derive.cost import price
from spangrade.evaluator.derive.span_tree import Tree
from spangrade.evaluator.derive.timing import Interval, length_s, seconds, without
from spangrade.evaluator.derive.turns import Group, grouped, turn_of
from spangrade.evaluator.session import (
    Error,
    Latency,
    LLMCall,
    Session,
    Step,
    ToolInteraction,
    Turn,
    Usage,
)


def assemble(
    session_id: str,
    source: Literal["conversation", "trace"],
    observations: Iterable[Observation],
    state: Iterable[tuple[int, Mapping[str, Any]]] = (),
) -> Session:
    """Return the session that observations (and a session log's `state`, by time in ns) tell of."""
    tree = _one_call_each(Tree(observations))
    groups = grouped(tree)
    turns = tuple(turn_of(index, group) for index, group in enumerate(groups, 1))
    tool_seen = _tools(groups, tree)
    agents = _agents(tree)
    calls = tuple(_call(i, turn, seen, tree) for i, (turn, seen) in enumerate(_in_turns(groups, "llm"), 1))
    interactions = tuple(
        _interaction(i, turn, seen, tree, agents) for i, (turn, seen) in enumerate(tool_seen, 1)
    )
    costs = [call.cost_usd for call in calls]
    unpriced = sorted({call.model or "a model without a name" for call in calls if call.cost_usd is None})
    return Session(
        session_id=session_id,
        session_id_source=source,
        question_id=next((o.question_id for o in tree.ordered if o.question_id), None),
        turns=turns,
        trajectory=_trajectory(groups, tool_seen),
        agents=agents,
        tool_interactions=interactions,
        handoffs=None if agents is None else _handoffs(tree, tool_seen, interactions),
        state_variables=_state(tree, state),
        llm_calls=calls,
        usage=_usage(calls),
        models=tuple(dict.fromkeys(c.model for c in calls if c.model)) or None,
        cost_usd=None if unpriced or not costs else sum(c for c in costs if c is not None),
        cost_unknown=", ".join(unpriced) or None,
        latency=_latency(tree, groups, turns, calls, interactions),
        errors=_errors(tree, interactions),
        missing_spans=missing_spans(tree),
        sampled=any(o.sampled for o in tree.ordered),
    )


def _one_call_each(tree: Tree) -> Tree:
    """Return the tree with each call of a model or a tool told once.

    Two instrumentations (or one, twice) put a span inside another for one call, or side by side: the outer
    is kept, else the earlier, with what only the other knows.
    """
    kept = {(o.trace_id, o.span_id): o for o in tree.ordered}
    keyed: dict[str, Observation] = {}
    twice = False
    for seen in tree.ordered:
        if seen.kind not in {"llm", "tool"}:
            continue
        outer = tree.nearest(seen)
        while outer is not None and kept[outer.trace_id, outer.span_id].kind in {"other", "workflow"}:
            outer = tree.nearest(outer)
        same = outer is not None and outer.kind == seen.kind and (seen.kind == "llm" or _same(outer, seen))
        if not same and seen.kind == "llm" and seen.call_key:
            outer = keyed.setdefault(seen.call_key, seen)
            same = outer is not seen and seen.start_ns < outer.end_ns
        if outer is not None and same:
            twice = True
            above = (outer.trace_id, outer.span_id)
            kept[above] = _filled(kept[above], seen)
            kept[seen.trace_id, seen.span_id] = seen._replace(kind="other")
    return Tree(kept.values()) if twice else tree


def _same(outer: Observation, inner: Observation) -> bool:
    """Tell whether a tool's span inside another is of the same call: nothing known of both differs."""
    known = zip(
        (outer.name, outer.call_id, outer.arguments),
        (inner.name, inner.call_id, inner.arguments),
        strict=True,
    )
    return all(one == other for one, other in known if one is not None and other is not None)


def _filled(outer: Observation, inner: Observation) -> Observation:
    missing = {
        name: value
        for name, value in inner._asdict().items()
        if value not in (None, (), False) and getattr(outer, name) in (None, ())
    }
    return outer._replace(**missing) if missing else outer


def _in_turns(groups: Sequence[Group], kind: str) -> list[tuple[int, Observation]]:
    found = [(turn, o) for turn, group in enumerate(groups, 1) for o in group.members if o.kind == kind]
    return sorted(found, key=lambda item: item[1].start_ns)


def _tools(groups: Sequence[Group], tree: Tree) -> list[tuple[int, Observation]]:
    recorded = any(o.kind == "tool" for group in groups for o in group.members)
    found: list[tuple[int, Observation]] = []
    for turn, group in enumerate(groups, 1):
        messages = tool_calls.told([o._replace(agent=_agent_of(o, tree)) for o in group.calls])
        spans = [o for o in group.members if o.kind == "tool"]
        seen = tool_calls.completed(spans, messages) if recorded else tool_calls.from_messages(messages)
        found += [(turn, o) for o in seen]
    return found


def _agent_of(seen: Observation, tree: Tree) -> str | None:
    if seen.agent or not seen.span_id:
        return seen.agent
    above = tree.nearest(seen)
    while above is not None:
        if above.kind == "agent":
            return above.name
        above = tree.nearest(above)
    return None


def _agents(tree: Tree) -> tuple[str, ...] | None:
    started = [o.name for o in tree.ordered if o.kind == "agent" and o.name]
    named = started or [o.agent for o in tree.ordered if o.agent]
    return tuple(dict.fromkeys(named)) or None


def _trajectory(groups: Sequence[Group], tool_seen: Sequence[tuple[int, Observation]]) -> tuple[Step, ...]:
    started = [(turn, o) for turn, o in _in_turns(groups, "agent") if o.name]
    steps: list[Step] = []
    last_agent = None
    # An agent that is a tool starts with it or after it: at equal times the tool is named first.
    for turn, seen in sorted([*tool_seen, *started], key=lambda item: item[1].start_ns):
        if seen.kind == "agent":
            if seen.name == last_agent:
                continue
            last_agent = seen.name
        kind: Literal["agent", "tool"] = "agent" if seen.kind == "agent" else "tool"
        name = seen.name or ""
        steps.append(
            Step(len(steps) + 1, turn, kind, name, seen.start_ns, seen.trace_id, seen.span_id or None)
        )
    return tuple(steps)


def _call(position: int, turn: int, seen: Observation, tree: Tree) -> LLMCall:
    return LLMCall(
        position,
        turn,
        _agent_of(seen, tree),
        seen.provider,
        seen.model,
        seen.input_tokens,
        seen.output_tokens,
        seen.cached_input_tokens,
        seen.reasoning_tokens,
        seen.grounding_chunks,
        seen.code_executions,
        price(seen),
        seen.start_ns,
        seen.end_ns,
        seconds(seen.start_ns, seen.end_ns) if seen.timed else None,
        seen.trace_id,
        seen.span_id,
    )


def _interaction(
    position: int, turn: int, seen: Observation, tree: Tree, agents: tuple[str, ...] | None
) -> ToolInteraction:
    ok, error = tool_calls.verdict(seen)
    return ToolInteraction(
        position,
        turn,
        seen.name or "",
        tool_calls.json_or_none(seen.arguments),
        tool_calls.json_or_none(seen.result),
        seen.arguments is not None,
        seen.result is not None,
        ok,
        error,
        seen.call_id,
        _agent_of(seen, tree),
        agents is not None and (seen.handoff_to is not None or tool_calls.is_handoff(seen.name or "")),
        seen.start_ns,
        seen.end_ns,
        seconds(seen.start_ns, seen.end_ns) if seen.span_id and seen.timed else None,
        seen.trace_id,
        seen.span_id or None,
    )


def _handoffs(
    tree: Tree, tool_seen: Sequence[tuple[int, Observation]], interactions: Sequence[ToolInteraction]
) -> tuple[tuple[str | None, str], ...]:
    """Return (from, to) for every transfer of control; one that is recorded twice counts once.

    Where neither arguments nor name tell where it went, it is the agent that started next. Where no span
    stands for a transfer, it is told by the call that a model made and the agent that then started. A span
    that goes to what is no agent is a step inside a graph.
    """
    starts = [(o.start_ns, o.name) for o in tree.ordered if o.kind == "agent" and o.name]
    agents = {tool_calls.spelt(name): name for _, name in starts}
    transfers = [
        (
            t.start_ns,
            t.trace_id,
            t.agent,
            seen.handoff_to or tool_calls.handoff_target(t.tool_name, seen.arguments),
        )
        for (_, seen), t in zip(tool_seen, interactions, strict=True)
        if t.handoff
    ]
    transfers += [
        (o.start_ns, o.trace_id, o.agent or _agent_of(o, tree), o.handoff_to)
        for o in tree.ordered
        if o.kind == "handoff"
        and (not agents or not o.handoff_to or tool_calls.spelt(o.handoff_to) in agents)
    ]
    if not transfers and len(agents) > 1:
        transfers = [
            (o.start_ns, o.trace_id, _agent_of(o, tree), name)
            for o in tree.ordered
            if o.kind == "llm"
            for call in o.tool_calls
            if call.name and tool_calls.is_handoff(call.name)
            for at, name in starts
            if at >= o.start_ns and tool_calls.is_named(call.name, call.arguments, name)
        ]
    found: list[tuple[str, str | None, str]] = []
    for start_ns, trace_id, source, target in sorted(transfers, key=lambda item: item[0]):
        to = target or next((name for at, name in starts if at >= start_ns), None)
        if to is not None:
            transfer = (trace_id, source, agents.get(tool_calls.spelt(to), to))
            if not found or found[-1] != transfer:
                found.append(transfer)
    return tuple((source, to) for _, source, to in found)


def _state(tree: Tree, session_log: Iterable[tuple[int, Mapping[str, Any]]]) -> dict[str, Any] | None:
    writes = [*session_log, *(write for o in tree.ordered for write in o.state)]
    if not writes:
        return None
    state: dict[str, Any] = {}
    for _, variables in sorted(writes, key=lambda write: write[0]):
        state.update(variables)
    return state


def _total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _usage(calls: Sequence[LLMCall]) -> Usage:
    return Usage(
        len(calls) or None,
        _total(c.input_tokens for c in calls),
        _total(c.output_tokens for c in calls),
        _total(c.cached_input_tokens for c in calls),
        _total(c.reasoning_tokens for c in calls),
        bool(calls) and all(c.input_tokens is not None and c.output_tokens is not None for c in calls),
    )


def _latency(
    tree: Tree,
    groups: Sequence[Group],
    turns: Sequence[Turn],
    calls: Sequence[LLMCall],
    interactions: Sequence[ToolInteraction],
) -> Latency:
    """Return where the turns' time went; what has a part of unknown length is unknown.

    A model span may enclose tools and whole sub-agents: its own time is its interval without theirs.
    """
    enclosed: dict[tuple[str, str], list[Interval]] = {}
    for seen in tree.ordered:
        if seen.kind != "other":
            above = tree.nearest(seen)
            if above is not None:
                enclosed.setdefault((above.trace_id, above.span_id), []).append((seen.start_ns, seen.end_ns))
    own: dict[str, list[Interval]] = {"llm": [], "tool": []}
    for seen in tree.ordered:
        if seen.kind in own:
            holes = enclosed.get((seen.trace_id, seen.span_id), ())
            own[seen.kind] += without((seen.start_ns, seen.end_ns), holes)
    times = [turn.latency_s for turn in turns if turn.latency_s is not None]
    total = round(sum(times), 6) if len(times) == len(turns) else None
    llm_timed = bool(own["llm"]) and all(call.latency_s is not None for call in calls)
    tools_timed = all(tool.latency_s is not None for tool in interactions)
    rest = None if total is None else total - length_s(own["llm"] + own["tool"])
    first = [o for o in groups[0].calls if o.response] if groups else []
    responded = first and all(o.timed for o in first)
    return Latency(
        total_s=total,
        llm_s=length_s(own["llm"]) if llm_timed else None,
        tool_s=length_s(own["tool"]) if tools_timed else None,
        framework_s=round(max(0.0, rest), 6) if rest is not None and llm_timed and tools_timed else None,
        first_response_s=seconds(turns[0].start_ns, min(o.end_ns for o in first)) if responded else None,
    )


def _errors(tree: Tree, interactions: Sequence[ToolInteraction]) -> tuple[Error, ...]:
    """Return each failure where it began: a span that only repeats what failed inside it is left out."""
    if not any(t.ok is False for t in interactions) and not any(o.failed for o in tree.ordered):
        return ()
    found = [
        (t.start_ns, Error(f"tool {t.tool_name}", t.error, t.trace_id, t.span_id))
        for t in interactions
        if t.ok is False
    ]
    inside: dict[tuple[str, str], list[str | None]] = {}
    failed_tools = {(t.trace_id, t.span_id): t.error for t in interactions if t.ok is False}
    for seen in reversed(tree.ordered):
        node = (seen.trace_id, seen.span_id)
        below = inside.get(node, [])
        message = failed_tools.get(node, seen.error)
        failed = seen.failed or node in failed_tools
        repeats = any(m is None or message is None or m in message or message in m for m in below)
        if failed and not repeats and seen.kind in {"agent", "llm"}:
            name = seen.name if seen.kind == "agent" else seen.model
            found.append((seen.start_ns, Error(f"{seen.kind} {name}", message, *node)))
        above = tree.parent(seen)
        if above is not None:
            inside.setdefault((above.trace_id, above.span_id), []).extend(
                [*below, *([message] if failed else [])]
            )
    return tuple(error for _, error in sorted(found, key=lambda item: item[0]))
