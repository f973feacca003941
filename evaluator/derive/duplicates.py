"""One call recorded by several spans: by two instrumentations, by one inside another, by its attempts."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, TypeVar

from spangrade.converters.spans.observation import (
    ModelCall,
    Observation,
    RunSpan,
    Structure,
    ToolUse,
    Traits,
    Work,
    structure_of,
)
from spangrade.converters.spans.outcomes import approval_of
from spangrade.converters.spans.values import parse_json
from spangrade.evaluator.derive.cost import FRAMEWORKS
from spangrade.evaluator.derive.span_tree import Node, Tree
from spangrade.evaluator.derive.timing import half_at_once

_MAX_OPEN = 100  # earlier calls that one beside them is compared with
_UNKNOWN = (None, ())
_CALLS = (ModelCall, ToolUse)
_OF_PROTOCOL: Traits = frozenset({"of_protocol"})
_SERVER_NAME = re.compile(r"\w[\w./:-]*[_./:-]")  # and what parts it from the name of the tool
# Others serve the models of several providers, or call them by another one's API.
_APIS = re.compile(r"anthropic|gemini|openai")
_GROUPS = frozenset({"session", "notes", "exchange", "tokens"})
_Call = TypeVar("_Call", ModelCall, ToolUse)


def merge_duplicates(tree: Tree) -> Tree:
    """Return the tree with each call of a model or a tool in it once.

    The two spans of a call are nested, or beside each other (`_beside`, `_Clients`). The outer one is
    kept, else the earlier, completed with what only the other knows; the other becomes a `Structure`.
    """
    beside: dict[Node, ModelCall | ToolUse] = {**_beside(tree.model_calls), **_beside(tree.tools)}
    if not beside and "of_server" not in tree.index.traits and not _are_nested(tree):
        return tree
    changed: dict[Node, Observation] = {}
    above: dict[Node, Work | None] = {}  # the nearest ancestor that may record the same call
    repeated: dict[Node, ModelCall | ToolUse] = {}
    clients = _Clients(tree.tools)
    for inner in tree.ordered:
        if not isinstance(inner, _CALLS):
            continue
        outer = _around(inner, tree, changed, above)
        if outer is None:
            outer = beside.get(inner.span.node)
            while outer is not None and outer.span.node in repeated:  # by a third instrumentation
                outer = repeated[outer.span.node]
        if outer is None and isinstance(inner, ToolUse) and "of_server" in inner.traits:
            outer = clients.of(inner)
        if outer is not None:
            repeated[inner.span.node] = outer
            if tree.agent_of(outer) is not None:  # an inner one may have a placeholder
                inner = inner._replace(agent=None)
            kept: Any = changed.get(outer.span.node, outer)
            changed[outer.span.node] = _completed(kept, outer, inner)
            changed[inner.span.node] = structure_of(inner)
    return tree.changed(changed)


def without_answered(tree: Tree) -> Tree:
    """Return the tree without the calls of an agent's answer that the agent's own spans of the trace record.

    Each pairs with one of its tool's name, with equal arguments if there is one, which it completes.
    """
    answered = [o for o in tree.index.noted if isinstance(o, ToolUse) and o.notes.driven is not None]
    if not answered:
        return tree
    own: dict[tuple[str, str | None], list[ToolUse]] = {}
    for tool in tree.tools:
        if tool.notes.driven is None:
            own.setdefault((tool.span.trace_id, tool.name), []).append(tool)
    changed: dict[Node, Observation] = {}
    for equal in (True, False):
        for tool in answered:
            others = own.get((tool.span.trace_id, tool.name), [])
            other = next((one for one in others if not equal or one.arguments == tool.arguments), None)
            if other is not None and tool.span.node not in changed:
                others.remove(other)
                changed[tool.span.node] = structure_of(tool)
                changed[other.span.node] = other._replace(**_missing(other, tool._replace(notes=other.notes)))
    return tree.changed(changed)


def _are_nested(tree: Tree) -> bool:
    """Return whether anything but the run of an agent is directly around a call: it may record the same."""
    around = [*map(tree.nearest, tree.model_calls), *map(tree.nearest, tree.tools)]
    return any(o is not None and not (isinstance(o, RunSpan) and o.is_agent) for o in around)


def _around(
    inner: ModelCall | ToolUse,
    tree: Tree,
    changed: Mapping[Node, Observation],
    above: dict[Node, Work | None],
) -> ModelCall | ToolUse | None:
    """Return the call around one that records the same; None if there is none."""
    passed = [inner.span.node]
    outer = tree.nearest(inner)
    while outer is not None and _is_passed(changed.get(outer.span.node, outer)):
        passed.append(outer.span.node)
        outer = above[passed[-1]] if passed[-1] in above else tree.nearest(outer)
    above.update(dict.fromkeys(passed, outer))
    if isinstance(inner, ModelCall):
        return outer if isinstance(outer, ModelCall) else None
    return outer if isinstance(outer, ToolUse) and _same_call(outer, inner) else None


def _is_passed(observation: Observation) -> bool:
    """Return whether the span around an observation may record the same call as one inside it."""
    return isinstance(observation, Structure) or (
        isinstance(observation, RunSpan) and not observation.is_agent
    )


def _beside(calls: Sequence[_Call]) -> dict[Node, _Call]:
    """Return the first spans of calls by their second ones, where neither is around the other.

    They overlap and share a key: a model's response id (the one with content is then the first), or the id of
    a call that two instrumentations record.
    Without keys they are of two instrumentations, ran at the same time for at least half of the shorter one,
    and what both record of the texts is equal.
    """
    found: dict[Node, _Call] = {}
    by_key: dict[str, _Call] = {}
    open_calls: deque[_Call] = deque(maxlen=_MAX_OPEN)
    several = len({call.span.scope for call in calls}) > 1
    paired: set[tuple[Node, str | None]] = set()  # each call once for each instrumentation
    for inner in calls:
        key = inner.call_key if isinstance(inner, ModelCall) else inner.call_id
        if key:
            outer = by_key.setdefault(key, inner)
            before_its_end = inner.span.start_ns < outer.span.end_ns
            if outer is not inner and before_its_end and _same_work(outer, inner):
                if _has_content(outer) or not _has_content(inner):
                    found[inner.span.node] = outer
                else:
                    found[outer.span.node] = by_key[key] = inner
                continue
            if not before_its_end:  # the id is used again
                by_key[key] = inner
        if not several:
            continue
        for outer in islice(reversed(open_calls), _MAX_OPEN):
            if (outer.span.node, inner.span.scope) not in paired and _repeats(outer, inner):
                paired.add((outer.span.node, inner.span.scope))
                found[inner.span.node] = outer
                break
        else:
            open_calls.append(inner)
    return found


def _same_work(outer: _Call, inner: _Call) -> bool:
    if isinstance(outer, ModelCall) or isinstance(inner, ModelCall):
        return _one_response(outer, inner)
    names = (outer.name, inner.name)
    return outer.span.scope != inner.span.scope and (None in names or outer.name == inner.name)


def _one_response(outer: Observation, inner: Observation) -> bool:
    """Return whether two model calls with the id of one response are one: of one provider, and one text.

    Different counts say nothing, for instrumentations count differently. Different texts do where one
    instrumentation records both: a stand-in for a model answers all calls with one id.
    """
    if not (isinstance(outer, ModelCall) and isinstance(inner, ModelCall)):
        return False
    providers = {known for call in (outer, inner) if (known := provider_of_id(call.provider))}
    said = {text for call in (outer, inner) if (text := _said(call))}
    return len(providers) < 2 and (outer.span.scope != inner.span.scope or len(said) < 2)


def provider_of_id(provider: str | None) -> str | None:
    """Return the API that gave a response its id, as far as the recorded provider tells; None if not."""
    found = _APIS.search(provider.lower()) if provider else None
    return found[0] if found else None


def _has_content(call: _Call) -> bool:
    return isinstance(call, ToolUse) or bool(_said(call) or call.exchange.user_input)


def _repeats(outer: _Call, inner: _Call) -> bool:
    """Return whether two spans without a common key record one call, by their times and texts."""
    if outer.span.scope == inner.span.scope or not half_at_once(outer.span.interval, inner.span.interval):
        return False
    if isinstance(outer, ToolUse) and isinstance(inner, ToolUse):
        same_arguments = outer.arguments is not None and outer.arguments == inner.arguments
        return same_arguments and _same_call(outer, inner)
    return isinstance(outer, ModelCall) and isinstance(inner, ModelCall) and _same_texts(outer, inner)


def _same_texts(outer: ModelCall, inner: ModelCall) -> bool:
    if outer.call_key and inner.call_key:
        return False
    error = outer.failure.error if outer.failure else None
    if error is not None and inner.failure and error == inner.failure.error:
        return True
    one, other = _said(outer), _said(inner)
    messages = (outer.exchange.user_input, inner.exchange.user_input)
    if all(messages) and messages[0] != messages[1]:
        return False
    counts = (
        (outer.tokens.input_tokens, inner.tokens.input_tokens),
        (outer.tokens.output_tokens, inner.tokens.output_tokens),
    )
    if one and other:
        return one == other and all(a == b for a, b in counts if None not in (a, b))
    # One of them records no texts.
    models = (outer.model or "", inner.model or "")
    same_model = models[0].startswith(models[1]) or models[1].startswith(models[0])
    return same_model and all(a and a == b for a, b in counts)


def _said(call: ModelCall) -> tuple[Any, ...]:
    """Return a model's answer, () if it is not recorded."""
    calls = tuple((requested.name, requested.arguments) for requested in call.exchange.tool_calls)
    return (calls, call.exchange.response or "") if calls or call.exchange.response else ()


class _Clients:
    """The spans of tools that were not recorded by the server of a protocol; each calls one server once."""

    def __init__(self, tools: Sequence[ToolUse]) -> None:
        self._by_trace: dict[str, list[ToolUse]] = {}
        if any(tool.traits and "of_server" in tool.traits for tool in tools):
            for tool in tools:
                if "of_server" not in tool.traits:
                    self._by_trace.setdefault(tool.span.trace_id, []).append(tool)

    def of(self, served: ToolUse) -> ToolUse | None:
        """Return the first client's span of a call that a server recorded beside it, None without one."""
        clients = self._by_trace.get(served.span.trace_id, [])
        found = [
            one
            for one in clients
            if half_at_once(one.span.interval, served.span.interval) and _same_call(one, served)
        ]
        found.sort(key=lambda one: one.arguments is None)
        if not found:
            return None
        clients.remove(found[0])
        return found[0]


def _same_call(outer: ToolUse, inner: ToolUse) -> bool:
    """Return whether the spans of tools record one call: nothing that both of them know differs.

    A client of a protocol may put the name of the server before that of the tool.
    """
    known = zip((outer.call_id, outer.arguments), (inner.call_id, inner.arguments), strict=True)
    if not all(one == other for one, other in known if one is not None and other is not None):
        return False
    if outer.name is None or inner.name is None or outer.name == inner.name:
        return True
    prefix = outer.name.removesuffix(inner.name) if "of_protocol" in inner.traits else outer.name
    return _SERVER_NAME.fullmatch(prefix) is not None and (
        outer.arguments is not None and outer.arguments == inner.arguments
    )


def _completed(outer: _Call, recorded: _Call, inner: _Call) -> _Call:
    """Return the outer span's observation with the fields that only an inner one has.

    `recorded` is the outer one as its span has it. The failure of an inner one is that of the call, unless
    the outer has its answer or a later inner one succeeded.
    """
    missing = _missing(outer, inner)
    for name in _GROUPS.intersection(outer._fields):
        group: Any = getattr(outer, name)
        if more := _missing(group, getattr(inner, name)):
            missing[name] = group._replace(**more)
    missing["failure"] = outer.failure
    missing["traits"] = outer.traits | (_OF_PROTOCOL & inner.traits)
    if isinstance(outer, ModelCall) and isinstance(inner, ModelCall):
        if outer.exchange.continues is None:
            exchange = missing.get("exchange", outer.exchange)
            missing["exchange"] = exchange._replace(continues=inner.exchange.continues)
        if outer.provider in FRAMEWORKS and inner.provider:
            missing["provider"] = inner.provider
    if recorded.failure is None and not _is_answered(recorded):
        missing["failure"] = inner.failure
    elif outer.failure and outer.failure.error is None and inner.failure:
        missing["failure"] = outer.failure._replace(error=inner.failure.error)
    return outer._replace(**missing)


def _missing(outer: Any, inner: Any) -> dict[str, Any]:
    """Return the unknown fields of a record, with the values of another one."""
    return {
        name: value
        for name, known, value in zip(outer._fields, outer, inner, strict=True)
        if known in _UNKNOWN and value not in (None, (), False)
    }


def _is_answered(call: ModelCall | ToolUse) -> bool:
    if isinstance(call, ToolUse):
        return bool(call.result)
    return bool(call.exchange.response or call.exchange.tool_calls)


def with_last_attempts(tree: Tree) -> Tree:
    """Return the tree with each call of a tool once, by its last attempt.

    Attempts have one id, name and arguments, one after the other, and all but the last wait for approval or
    failed. Where models requested the id more than once, a failed one may be a call of its own. One that was
    interrupted for a person may lack the id, which some instrumentations read from the result.
    """
    tree = _without_interrupted(tree)
    attempts: dict[tuple[str | None, str | None, str | None], list[ToolUse]] = {}
    for tool in tree.tools:
        if tool.call_id:
            attempts.setdefault((tool.call_id, tool.name, tool.arguments), []).append(tool)
    several = {key: spans for key, spans in attempts.items() if len(spans) > 1}
    if not several:
        return tree
    requests = Counter(call.call_id for o in tree.model_calls for call in o.exchange.tool_calls)
    changed: dict[Node, Observation] = {}
    for (call_id, *_), spans in several.items():
        for earlier, later in _repeated(spans, requested_once=requests[call_id] < 2):
            traits = changed.get(earlier.span.node, earlier).traits
            approved: Traits = frozenset({"approved"}) if _waited(earlier) else traits & {"approved"}
            changed[earlier.span.node] = structure_of(earlier)._replace(failure=None)
            changed[later.span.node] = later._replace(traits=later.traits | approved)
    return tree.changed(changed)


def _without_interrupted(tree: Tree) -> Tree:
    """Return the tree without the attempts that were interrupted for a person and taken up again later."""
    if "interrupted" not in tree.index.traits:
        return tree
    waiting: dict[tuple[str | None, str | None], list[ToolUse]] = {}
    changed: dict[Node, Observation] = {}
    for tool in tree.tools:
        before = waiting.setdefault((tool.name, tool.arguments), [])
        resumed = next((one for one in before[:_MAX_OPEN] if _resumes(tool, one)), None)
        if resumed is not None:
            before.remove(resumed)
            changed[resumed.span.node] = structure_of(resumed)
        if "interrupted" in tool.traits:
            before.append(tool)
    return tree.changed(changed)


def _resumes(later: ToolUse, earlier: ToolUse) -> bool:
    is_same = None in (earlier.call_id, later.call_id) or earlier.call_id == later.call_id
    return is_same and earlier.span.end_ns <= later.span.start_ns


def _repeated(spans: list[ToolUse], *, requested_once: bool) -> Iterator[tuple[ToolUse, ToolUse]]:
    """Yield an attempt and the next one, where the next takes up the same call."""
    for earlier, later in pairwise(spans):
        is_after = earlier.span.end_ns <= later.span.start_ns
        broke = earlier.failure or (earlier.result is None and later.result is not None)
        if is_after and (_waited(earlier) or (broke and requested_once)):
            yield earlier, later


def _waited(span: ToolUse) -> bool:
    return span.result is not None and approval_of(parse_json(span.result)) == "asked"
