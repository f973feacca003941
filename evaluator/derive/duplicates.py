"""One call recorded by two spans: two instrumentations, or one that writes a span inside another."""

from __future__ import annotations

from typing import Any

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.cost import FRAMEWORKS
from spangrade.evaluator.derive.span_tree import Node, Tree, node_of


def merge_duplicates(tree: Tree) -> Tree:
    """Return the tree with each call of a model or a tool in it once.

    The two spans of a call are nested or, for a model's call, share a key and overlap. The outer one is
    kept, else the earlier, completed with what only the other knows; the other becomes of kind "other".
    """
    kept = {node_of(o): o for o in tree.ordered}
    by_call_key: dict[str, Observation] = {}
    above: dict[Node, Observation | None] = {}  # the nearest ancestor that may record the same call
    merged = False
    for inner in tree.ordered:
        if inner.kind not in {"llm", "tool"}:
            continue
        passed = [node_of(inner)]
        outer = tree.nearest(inner)
        while outer is not None and kept[node_of(outer)].kind in {"other", "workflow"}:
            passed.append(node_of(outer))
            outer = above[passed[-1]] if passed[-1] in above else tree.nearest(outer)
        above.update(dict.fromkeys(passed, outer))
        same = (
            outer is not None
            and outer.kind == inner.kind
            and (inner.kind == "llm" or _same_call(outer, inner))
        )
        if not same and inner.kind == "llm" and inner.call_key:
            outer = by_call_key.setdefault(inner.call_key, inner)
            same = outer is not inner and inner.start_ns < outer.end_ns
        if outer is not None and same:
            merged = True
            kept[node_of(outer)] = _completed(kept[node_of(outer)], outer, inner)
            kept[node_of(inner)] = inner._replace(kind="other")
    return Tree(kept.values()) if merged else tree


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
