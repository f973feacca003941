"""The tree of a session's observations, however incomplete the recording is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spangrade.converters.spans.observation import Observation

Node = tuple[str, str]  # (trace id, span id)


def node_of(observation: Observation) -> Node:
    """Return what identifies an observation's span."""
    return observation.trace_id, observation.span_id


class Tree:
    """Observations in the order in which they started, parents before children.

    A span whose parent is not in the recording (lost, sampled out or still to come) is a root; so is a span
    that is its own ancestor.
    """

    def __init__(self, observations: Iterable[Observation]) -> None:
        by_node = {(o.trace_id, o.span_id): o for o in observations}
        self._by_node = by_node
        self._depth: dict[Node, int] = {}
        self._work_depth: dict[Node, int] = {}
        self._nearest: dict[Node, Observation | None] = {}
        for node in sorted(by_node):  # where spans name each other as parents, the lowest id is the root
            self._measure(node)
        self.ordered: Sequence[Observation] = [by_node[node] for node in sorted(by_node, key=self._place)]
        # What was looked up on the way, so that each span is passed once.
        self._top: dict[Node, Observation] = {}
        self._agent_above: dict[Node, str | None] = {}

    def _place(self, node: Node) -> tuple[int, int, int, str, str]:
        """Return what an observation is sorted by; spans that are not an agent's work change no other's."""
        trace_id, span_id = node
        observation = self._by_node[node]
        is_other = observation.kind == "other"
        within = self._depth[node] - len(self._depth) if is_other else 0  # before what it holds
        return observation.start_ns, self._work_depth[node], within, span_id, trace_id

    def _measure(self, node: Node) -> None:
        """Note the depth of a span, what is around it, and the same of its ancestors."""
        path: list[Node] = []
        visited: set[Node] = set()
        above: Node | None = node
        while above is not None and above not in self._depth and above not in visited:
            visited.add(above)
            path.append(above)
            above = self._parent_node(above)
        for step in reversed(path):
            depth, work = 0, 0
            nearest: Observation | None = None
            if above in self._depth:
                around = self._by_node[above]
                is_work = around.kind != "other"
                depth, work = self._depth[above] + 1, self._work_depth[above] + is_work
                nearest = around if is_work else self._nearest[above]
            self._depth[step], self._work_depth[step], self._nearest[step] = depth, work, nearest
            above = step

    def _parent_node(self, node: Node) -> Node | None:
        parent = self._by_node[node].parent_span_id
        if parent is None or (node[0], parent) not in self._by_node:
            return None
        return node[0], parent

    def depth(self, observation: Observation) -> int:
        """Return how many recorded ancestors a span has."""
        return self._depth[observation.trace_id, observation.span_id]

    def parent(self, observation: Observation) -> Observation | None:
        """Return the recorded parent; None for a root, and where spans name each other as parents."""
        node = (observation.trace_id, observation.span_id)
        parent = self._parent_node(node)
        if parent is None or self._depth[parent] >= self._depth[node]:
            return None
        return self._by_node[parent]

    def nearest(self, observation: Observation) -> Observation | None:
        """Return the nearest ancestor that describes an agent's work (is not of kind "other")."""
        return self._nearest[observation.trace_id, observation.span_id]

    def top(self, observation: Observation) -> Observation:
        """Return the topmost recorded ancestor, which is the observation itself without one."""
        passed: list[Node] = []
        at = observation
        while (known := self._top.get(node_of(at))) is None:
            passed.append(node_of(at))
            parent = self.parent(at)
            if parent is None:
                known = at
                break
            at = parent
        self._top.update(dict.fromkeys(passed, known))
        return known

    def agent_of(self, observation: Observation) -> str | None:
        """Return the agent that an observation belongs to: its own, else that of the nearest agent span."""
        if observation.agent or not observation.span_id:
            return observation.agent
        passed: list[Node] = []
        name = None
        at = observation
        while (ancestor := self.nearest(at)) is not None:
            if node_of(at) in self._agent_above:
                name = self._agent_above[node_of(at)]
                break
            passed.append(node_of(at))
            if ancestor.kind == "agent":
                name = ancestor.name
                break
            at = ancestor
        self._agent_above.update(dict.fromkeys(passed, name))
        return name

    def agent_model(self, observation: Observation) -> str | None:
        """Return the model that the nearest agent's or workflow's span around an observation names."""
        ancestor = self.nearest(observation)
        while ancestor is not None and not (ancestor.kind in {"agent", "workflow"} and ancestor.model):
            ancestor = self.nearest(ancestor)
        return None if ancestor is None else ancestor.model


def with_topmost_runs(tree: Tree) -> Tree:
    """Return the tree in which functions that are runs only where they are topmost are runs only there."""
    inner = {
        node_of(o): o._replace(kind="other", state=())
        for o in tree.ordered
        if o.only_topmost and tree.nearest(o) is not None
    }
    return Tree([inner.get(node_of(o), o) for o in tree.ordered]) if inner else tree


def with_declared_agents(tree: Tree) -> Tree:
    """Return the tree in which the outermost run that an agent is declared on is that agent's run.

    Only where no span is the run of that agent: then the runs inside it are the agent's parts.
    """
    if not any(o.declares_agent for o in tree.ordered):
        return tree
    started = {(o.trace_id, o.name) for o in tree.ordered if o.kind == "agent"}
    changed: dict[Node, Observation] = {}
    for o in tree.ordered:
        agent = (o.trace_id, o.declares_agent)
        if o.kind == "workflow" and o.declares_agent and agent not in started:
            started.add(agent)
            changed[node_of(o)] = o._replace(
                kind="agent", name=o.declares_agent, agent=o.declares_agent, only_topmost=False
            )
    return Tree([changed.get(node_of(o), o) for o in tree.ordered]) if changed else tree
