"""The tree that a session's observations form, whatever is missing from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spangrade.converters.spans.observation import Observation

Node = tuple[str, str]  # (trace id, span id)


class Tree:
    """Observations in the order in which they started, parents before children.

    A span without its parent in the recording (lost, sampled out, or still to come) is a root; so is one
    that is its own ancestor.
    """

    def __init__(self, observations: Iterable[Observation]) -> None:
        by_node = {(o.trace_id, o.span_id): o for o in observations}
        self._by_node = by_node
        self._depth: dict[Node, int] = {}
        for node in sorted(by_node):  # where spans name each other as parents, the first id stands above
            self._measure(node)
        self.ordered: Sequence[Observation] = sorted(
            by_node.values(), key=lambda o: (o.start_ns, self._depth[o.trace_id, o.span_id], o.span_id)
        )
        self._nearest: dict[Node, Observation | None] = {}

    def _measure(self, node: Node) -> None:
        path: list[Node] = []
        seen: set[Node] = set()
        while node not in self._depth:
            seen.add(node)
            path.append(node)
            above = self._above(node)
            if above is None or above in seen:
                break
            node = above
        depth = self._depth[node] + 1 if node in self._depth else 0
        for step in reversed(path):
            self._depth[step] = depth
            depth += 1

    def _above(self, node: Node) -> Node | None:
        parent = self._by_node[node].parent_span_id
        if parent is None or (node[0], parent) not in self._by_node:
            return None
        return node[0], parent

    def depth(self, observation: Observation) -> int:
        """Return how many recorded spans stand above one."""
        return self._depth[observation.trace_id, observation.span_id]

    def parent(self, observation: Observation) -> Observation | None:
        """Return the recorded parent; None at a root, and where spans name each other as parents."""
        node = (observation.trace_id, observation.span_id)
        above = self._above(node)
        if above is None or self._depth[above] >= self._depth[node]:
            return None
        return self._by_node[above]

    def nearest(self, observation: Observation) -> Observation | None:
        """Return the nearest ancestor that says something of an agent."""
        node = (observation.trace_id, observation.span_id)
        if node not in self._nearest:
            above = self.parent(observation)
            while above is not None and above.kind == "other":
                above = self.parent(above)
            self._nearest[node] = above
        return self._nearest[node]
