"""One call recorded by two spans: two instrumentations, or one that writes a span inside another."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.cost import FRAMEWORKS
from spangrade.evaluator.derive.span_tree import Node, Tree, node_of

_MAX_OPEN = 100  # earlier calls that one beside them is compared with


def merge_duplicates(tree: Tree) -> Tree:
    """Return the tree with each call of a model or a tool in it once.

    The two spans of a call are nested, or beside each other (`_beside`). The outer one is kept, else the
    earlier, completed with what only the other knows; the other becomes of kind "other".
    """
    changed: dict[Node, Observation] = {}
    beside = dict(_beside(tree))
    above: dict[Node, Observation | None] = {}  # the nearest ancestor that may record the same call
    repeated: dict[Node, Observation] = {}
    for inner in tree.ordered:
        if inner.kind not in {"llm", "tool"}:
            continue
        passed = [node_of(inner)]
        outer = tree.nearest(inner)
        while outer is not None and changed.get(node_of(outer), outer).kind in {"other", "workflow"}:
            passed.append(node_of(outer))
            outer = above[passed[-1]] if passed[-1] in above else tree.nearest(outer)
        above.update(dict.fromkeys(passed, outer))
        same = (
            outer is not None
            and outer.kind == inner.kind
            and (inner.kind == "llm" or _same_call(outer, inner))
        )
        if not same:
            outer = beside.get(node_of(inner))
            while outer is not None and node_of(outer) in repeated:  # by a third instrumentation
                outer = repeated[node_of(outer)]
            same = outer is not None
        if outer is not None and same:
            repeated[node_of(inner)] = outer
            if tree.agent_of(outer) is not None:  # an inner one may have a placeholder
                inner = inner._replace(agent=None)
            changed[node_of(outer)] = _completed(changed.get(node_of(outer), outer), outer, inner)
            changed[node_of(inner)] = inner._replace(kind="other")
    return Tree([changed.get(node_of(o), o) for o in tree.ordered]) if changed else tree


def _beside(tree: Tree) -> Iterator[tuple[Node, Observation]]:
    """Yield a call's second span and the first, where neither is around the other.

    They overlap and share a key: a model's response id, or the id of a call that two instrumentations record.
    Without keys they are of two instrumentations, ran at the same time for at least half of the shorter one,
    and what both record of the texts is equal.
    """
    by_key: dict[tuple[str, str], Observation] = {}
    open_calls: dict[str, deque[Observation]] = {
        "llm": deque(maxlen=_MAX_OPEN),
        "tool": deque(maxlen=_MAX_OPEN),
    }
    several = {kind for kind in open_calls if len({o.scope for o in tree.ordered if o.kind == kind}) > 1}
    paired: set[tuple[Node, str | None]] = set()  # each call once for each instrumentation
    for inner in tree.ordered:
        if inner.kind not in open_calls:
            continue
        key = inner.call_key if inner.kind == "llm" else inner.call_id
        if key:
            outer = by_key.setdefault((inner.kind, key), inner)
            if outer is not inner and inner.start_ns < outer.end_ns and _same_work(outer, inner):
                yield node_of(inner), outer
                continue
            if inner.start_ns >= outer.end_ns:  # the id is used again
                by_key[inner.kind, key] = inner
        if inner.kind not in several:
            continue
        for outer in islice(reversed(open_calls[inner.kind]), _MAX_OPEN):
            if (node_of(outer), inner.scope) not in paired and _repeats(outer, inner):
                paired.add((node_of(outer), inner.scope))
                yield node_of(inner), outer
                break
        else:
            open_calls[inner.kind].append(inner)


def _same_work(outer: Observation, inner: Observation) -> bool:
    if inner.kind == "llm":
        return True
    return outer.scope != inner.scope and (None in (outer.name, inner.name) or outer.name == inner.name)


def _repeats(outer: Observation, inner: Observation) -> bool:
    """Return whether two spans without a common key record one call, by their times and texts."""
    both_ns = min(outer.end_ns, inner.end_ns) - inner.start_ns
    shorter_ns = min(outer.end_ns - outer.start_ns, inner.end_ns - inner.start_ns)
    if outer.scope == inner.scope or both_ns < 0 or shorter_ns < 0 or 2 * both_ns < shorter_ns:
        return False
    if inner.kind == "tool":
        return outer.arguments is not None and _same_call(outer, inner) and outer.arguments == inner.arguments
    if outer.call_key and inner.call_key:
        return False
    if outer.failed and inner.failed and outer.error is not None and outer.error == inner.error:
        return True
    one, other = _said(outer), _said(inner)
    if outer.user_input and inner.user_input and outer.user_input != inner.user_input:
        return False
    counts = ((outer.input_tokens, inner.input_tokens), (outer.output_tokens, inner.output_tokens))
    if one and other:
        return one == other and all(a == b for a, b in counts if None not in (a, b))
    # One of them records no texts.
    models = (outer.model or "", inner.model or "")
    same_model = models[0].startswith(models[1]) or models[1].startswith(models[0])
    return same_model and all(a and a == b for a, b in counts)


def _said(call: Observation) -> tuple[Any, ...]:
    """Return what a model answered, () if that is not recorded."""
    calls = tuple((requested.name, requested.arguments) for requested in call.tool_calls)
    return (calls, call.response or "") if calls or call.response else ()


def _same_call(outer: Observation, inner: Observation) -> bool:
    """Return whether nested tool spans record one call: nothing that both of them know differs."""
    known = zip(
        (outer.name, outer.call_id, outer.arguments),
        (inner.name, inner.call_id, inner.arguments),
        strict=True,
    )
    return all(one == other for one, other in known if one is not None and other is not None)


def _completed(outer: Observation, recorded: Observation, inner: Observation) -> Observation:
    """Return the outer span's observation with what only an inner one knows.

    `recorded` is the outer one as its span has it. The failure of an inner one is that of the call, unless
    the outer has its answer or a later inner one succeeded.
    """
    missing: dict[str, Any] = {
        name: value
        for name, value in inner._asdict().items()
        if value not in (None, (), False) and getattr(outer, name) in (None, ())
    }
    if outer.continues is None:
        missing["continues"] = inner.continues
    if outer.provider in FRAMEWORKS and inner.provider:
        missing["provider"] = inner.provider
    if not (recorded.failed or recorded.response or recorded.tool_calls or recorded.result):
        missing |= {name: getattr(inner, name) for name in ("failed", "error", "raised", "cut_off")}
    return outer._replace(**missing) if missing else outer
