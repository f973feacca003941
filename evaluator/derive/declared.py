"""What the models of a session were given beside the messages: their tools' declarations and instructions."""

from __future__ import annotations

from typing import Any

import orjson

from spangrade.converters.spans.values import objects, text
from spangrade.evaluator.derive.span_tree import Tree
from spangrade.tracer.canonical_json import canonical


def tool_declarations(tree: Tree) -> list[dict[str, Any]] | None:
    """Return the tools that the models could call, each once, in Gemini's form; None if none is recorded.

    Of several declarations of one agent's tool, it is the first of those that say the most.
    """
    declared: dict[tuple[str | None, str], dict[str, Any]] = {}
    read: set[tuple[str | None, str]] = set()
    for observation in tree.ordered:
        source = observation.notes.tool_declarations
        if source is None or (key := (tree.agent_of(observation), source)) in read:
            continue
        read.add(key)
        for declaration in objects(orjson.loads(source)):
            tool = key[0], text(declaration.get("name")) or canonical(declaration)
            if len(declaration) > len(declared.get(tool, ())):
                declared[tool] = declaration
    described = {
        one["name"] for one in declared.values() if isinstance(one.get("name"), str) and len(one) > 1
    }
    distinct = {canonical(one): one for one in declared.values()}
    return [
        {"function_declarations": [one]} if "name" in one else one
        for one in distinct.values()
        if len(one) > 1 or text(one.get("name")) not in described
    ] or None


def system_instruction(tree: Tree) -> str | None:
    """Return the first instructions of each agent's model, different ones apart by an empty line."""
    by_agent: dict[str | None, str] = {}
    for observation in tree.ordered:
        if observation.notes.system_instructions:
            by_agent.setdefault(tree.agent_of(observation), observation.notes.system_instructions)
    return "\n\n".join(dict.fromkeys(by_agent.values())) or None
