"""The declarations of tools and the instructions that the models of a session were given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from spangrade.converters.spans.values import objects, text
from spangrade.evaluator.derive.span_tree import Tree
from spangrade.tracer.canonical_json import canonical


class Declared(NamedTuple):
    """The recorded declarations of tools that models could call; None without any.

    `declarations` are in Gemini's form, each once; `to` has them by name, as (agent, tool).
    """

    declarations: list[dict[str, Any]] | None
    to: tuple[tuple[str | None, str], ...] | None


def declared_tools(tree: Tree) -> Declared:
    """Return the tools that the models could call.

    Of several declarations of one agent's tool, it is the first of those that say the most. A tool that runs
    on the provider's side has no name: it is named by its type, or by its keys.
    """
    declared: dict[tuple[str | None, str], dict[str, Any]] = {}
    named: dict[tuple[str | None, str], None] = {}
    for agent, declaration in _declarations(tree):
        name = text(declaration.get("name"))
        tool = agent, name or canonical(declaration)
        if len(declaration) > len(declared.get(tool, ())):
            declared[tool] = declaration
        own = name or text(declaration.get("type"))
        named.update(dict.fromkeys((agent, one) for one in ((own,) if own else declaration)))
    described = {
        one["name"] for one in declared.values() if isinstance(one.get("name"), str) and len(one) > 1
    }
    distinct = {canonical(one): one for one in declared.values()}
    declarations = [
        {"function_declarations": [one]} if "name" in one else one
        for one in distinct.values()
        if len(one) > 1 or text(one.get("name")) not in described
    ]
    return Declared(declarations or None, tuple(named) or None)


def _declarations(tree: Tree) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Yield the recorded declarations of tools, each list of an agent once, with the agent."""
    read: set[tuple[str | None, str]] = set()
    for observation in tree.ordered:
        source = observation.notes.tool_declarations
        if source is not None and (key := (tree.agent_of(observation), source)) not in read:
            read.add(key)
            for declaration in objects(orjson.loads(source)):
                yield key[0], declaration


def system_instruction(tree: Tree) -> str | None:
    """Return the first instructions of each agent's model, different ones apart by an empty line."""
    by_agent: dict[str | None, str] = {}
    for observation in tree.ordered:
        if observation.notes.system_instructions:
            by_agent.setdefault(tree.agent_of(observation), observation.notes.system_instructions)
    return "\n\n".join(dict.fromkeys(by_agent.values())) or None
