"""A call that was interrupted and taken up again under its id: one call, with its last outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from spangrade.converters.spans.approvals import approval_of
from spangrade.converters.spans.observation import Observation
from spangrade.converters.spans.values import parse_json
from spangrade.evaluator.derive.span_tree import Node, Tree, node_of


def with_last_attempts(tree: Tree) -> Tree:
    """Return the tree with each call of a tool once, by its last attempt.

    Attempts have one id, name and arguments, one after the other, and all but the last wait for approval or
    failed. Where models requested the id more than once, a failed one may be a call of its own.
    """
    attempts: dict[tuple[str | None, str | None, str | None], list[Observation]] = {}
    for o in tree.ordered:
        if o.kind == "tool" and o.call_id:
            attempts.setdefault((o.call_id, o.name, o.arguments), []).append(o)
    several = {key: spans for key, spans in attempts.items() if len(spans) > 1}
    if not several:
        return tree
    requests = Counter(call.call_id for o in tree.ordered if o.kind == "llm" for call in o.tool_calls)
    changed: dict[Node, Observation] = {}
    for (call_id, *_), spans in several.items():
        for earlier, later in _repeated(spans, requested_once=requests[call_id] < 2):
            waited = _waited(earlier) or changed.get(node_of(earlier), earlier).approved
            changed[node_of(earlier)] = earlier._replace(kind="other", failed=False, error=None)
            changed[node_of(later)] = later._replace(approved=waited)
    return Tree([changed.get(node_of(o), o) for o in tree.ordered]) if changed else tree


def _repeated(spans: list[Observation], *, requested_once: bool) -> Iterator[tuple[Observation, Observation]]:
    """Yield an attempt and the next one, where the next takes up the same call."""
    for earlier, later in pairwise(spans):
        is_after = earlier.end_ns <= later.start_ns
        if is_after and (_waited(earlier) or (earlier.failed and requested_once)):
            yield earlier, later


def _waited(span: Observation) -> bool:
    return span.result is not None and approval_of(parse_json(span.result)) == "asked"
