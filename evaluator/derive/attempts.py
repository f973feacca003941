"""A call that was interrupted and taken up again under its id: one call, with its last outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from spangrade.converters.spans.approvals import approval_of
from spangrade.converters.spans.observation import Observation, ToolUse, Traits, structure_of
from spangrade.converters.spans.values import parse_json
from spangrade.evaluator.derive.span_tree import Node, Tree


def with_last_attempts(tree: Tree) -> Tree:
    """Return the tree with each call of a tool once, by its last attempt.

    Attempts have one id, name and arguments, one after the other, and all but the last wait for approval or
    failed. Where models requested the id more than once, a failed one may be a call of its own.
    """
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


def _repeated(spans: list[ToolUse], *, requested_once: bool) -> Iterator[tuple[ToolUse, ToolUse]]:
    """Yield an attempt and the next one, where the next takes up the same call."""
    for earlier, later in pairwise(spans):
        is_after = earlier.span.end_ns <= later.span.start_ns
        if is_after and (_waited(earlier) or (earlier.failure and requested_once)):
            yield earlier, later


def _waited(span: ToolUse) -> bool:
    return span.result is not None and approval_of(parse_json(span.result)) == "asked"
