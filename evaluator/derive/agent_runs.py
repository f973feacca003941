"""Which runs are an agent's: recorded as one, declared as one, or calling models under its own name.

A framework's own record of an agent stays one, also without model calls. A node of a graph, and a run that
only its span names, is one by what is around it.
"""

from __future__ import annotations

from spangrade.converters.spans.observation import Observation, RunSpan
from spangrade.evaluator.derive.span_tree import Node, Tree, of_kind


def with_declared_agents(tree: Tree) -> Tree:
    """Return the tree in which the outermost run that an agent is declared on is that agent's run.

    Only where no span is the run of that agent: then the runs inside it are the agent's parts.
    """
    declaring = [run for run in of_kind(RunSpan, tree.ordered) if run.declares_agent and not run.is_agent]
    if not declaring:
        return tree
    started = {(run.span.trace_id, run.name) for run in tree.agents}
    changed: dict[Node, Observation] = {}
    for run in declaring:
        agent = (run.span.trace_id, run.declares_agent)
        if agent not in started:
            started.add(agent)
            named = _as_agent(run, run.declares_agent)
            changed[run.span.node] = named._replace(traits=run.traits - {"only_topmost"})
    return tree.changed(changed)


def without_plumbing(tree: Tree) -> Tree:
    """Return the tree in which a node of a graph is an agent only if a model call names it, or is its own.

    A call is the node's own if no other agent's run is between them, and it names no other agent.
    """
    nodes = [run for run in tree.agents if "is_node" in run.traits]
    if not nodes:
        return tree
    calling: set[tuple[str, str | None]] = set()
    own: set[Node] = set()
    for call in tree.model_calls:
        if call.agent:
            calling.add((call.span.trace_id, call.agent))
        above = tree.agent_above(call)
        if above is not None and call.agent in (None, above.name):
            own.add(above.span.node)
    return tree.changed(
        {
            run.span.node: run._replace(is_agent=False, name=None, agent=None)
            for run in nodes
            if run.span.node not in own and (run.span.trace_id, run.name) not in calling
        }
    )


def with_agents_named_by_spans(tree: Tree) -> Tree:
    """Return the tree in which a run of an agent without a name has that of its span.

    Only where no span in it, and none of its instrumentation, names an agent.
    """
    unnamed = [run for run in of_kind(RunSpan, tree.ordered) if run.candidate and not run.name]
    if not unnamed:
        return tree
    naming = [o for o in tree.ordered if o.agent or (isinstance(o, RunSpan) and o.is_agent and o.name)]
    scopes = {o.span.scope for o in naming}
    around: set[Node] = set()
    for o in naming:
        above = tree.parent(o)
        while above is not None and above.span.node not in around:
            around.add(above.span.node)
            above = tree.parent(above)
    return tree.changed(
        {
            run.span.node: _as_agent(run, run.candidate)
            for run in unnamed
            if run.span.scope not in scopes and run.span.node not in around
        }
    )


def _as_agent(run: RunSpan, name: str | None) -> RunSpan:
    return run._replace(is_agent=True, name=name, agent=name)
