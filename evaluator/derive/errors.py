"""The failures of a session, each where it began."""

from __future__ import annotations

from collections.abc import Sequence

from spangrade.evaluator.derive.span_tree import Node, Tree, node_of
from spangrade.evaluator.session import Error, ToolInteraction


def errors(tree: Tree, tool_interactions: Sequence[ToolInteraction]) -> tuple[Error, ...]:
    """Return each failure once: a span that only repeats what failed inside it is left out."""
    failed_tools = [tool for tool in tool_interactions if tool.ok is False]
    if not failed_tools and not any(o.failed for o in tree.ordered):
        return ()
    found = [
        (
            tool.start_ns,
            Error(
                where=f"tool {tool.tool_name}",
                message=tool.error,
                trace_id=tool.trace_id,
                span_id=tool.span_id,
            ),
        )
        for tool in failed_tools
    ]
    tool_errors = {(tool.trace_id, tool.span_id): tool.error for tool in failed_tools}
    messages_inside: dict[Node, list[str | None]] = {}
    for observation in reversed(tree.ordered):
        node = node_of(observation)
        inside = messages_inside.get(node, [])
        message = tool_errors.get(node, observation.error)
        failed = observation.failed or node in tool_errors
        repeats = any(m is None or message is None or m in message or message in m for m in inside)
        if failed and not repeats and observation.kind in {"agent", "llm"}:
            name = observation.name if observation.kind == "agent" else observation.model
            found.append((observation.start_ns, Error(f"{observation.kind} {name}", message, *node)))
        parent = tree.parent(observation)
        if parent is not None:
            messages_inside.setdefault(node_of(parent), []).extend([*inside, *([message] if failed else [])])
    return tuple(error for _, error in sorted(found, key=lambda item: item[0]))
