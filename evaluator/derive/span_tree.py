"""The tree of a session's observations, however incomplete the recording is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from spangrade.converters.spans.observation import (
    NO_NOTES,
    Exchanging,
    Handoff,
    ModelCall,
    Observation,
    RunSpan,
    SessionContext,
    Structure,
    ToolUse,
    Trait,
    Traits,
    TurnSpan,
    Work,
)

Node = tuple[str, str]  # (trace id, span id), which identify a span
WITH_MESSAGES = (RunSpan, TurnSpan, ModelCall)
_Kind = TypeVar("_Kind", bound=Observation)


def of_kind(kind: type[_Kind], observations: Iterable[Observation]) -> list[_Kind]:
    """Return the observations of one kind, in their order."""
    return [o for o in observations if isinstance(o, kind)]


def with_messages(observations: Iterable[Observation]) -> list[Exchanging]:
    """Return the observations that may record messages, in their order."""
    return [o for o in observations if isinstance(o, WITH_MESSAGES)]


class Index(NamedTuple):
    """What the observations of a tree have, in their order: what none of them has costs one look-up.

    `noted` are those with notes, `contexts` the different facts of the session, `traits` those of any.
    """

    model_calls: Sequence[ModelCall]
    tools: Sequence[ToolUse]
    runs: Sequence[RunSpan]
    agents: Sequence[RunSpan]
    handoffs: Sequence[Handoff]
    noted: Sequence[Observation]
    contexts: Sequence[SessionContext]
    traits: Traits


class Tree:
    """Observations in the order in which they started, parents before children.

    A span whose parent is not in the recording (lost, sampled out or still to come) is a root; so is a span
    that is its own ancestor.
    """

    def __init__(self, observations: Iterable[Observation]) -> None:
        self._by_node: dict[Node, Observation] = {o.span[:2]: o for o in observations}
        self.has_orphans = False  # spans whose parent is not recorded
        self._depth: dict[Node, int] = {}
        self._work_depth: dict[Node, int] = {}
        self._nearest: dict[Node, Work | None] = {}
        # Where spans name each other as parents, the lowest id is the root.
        for node in sorted(self._measure_below_known()):
            self._measure(node)
        # Spans that are not an agent's work change no other's place, and come before what they hold.
        count = len(self._by_node)
        places = [
            (
                o.span.start_ns,
                self._work_depth[node],
                self._depth[node] - count if isinstance(o, Structure) else 0,
                node[1],
                node[0],
                o,
            )
            for node, o in self._by_node.items()
        ]
        places.sort()
        self.ordered: Sequence[Observation] = [place[5] for place in places]
        # What was looked up on the way, so that each span is passed once.
        self._top: dict[Node, Observation] = {}
        self._agent_above: dict[Node, str | None] = {}

    @cached_property
    def index(self) -> Index:
        """What its observations have, each looked at once."""
        kinds: dict[type[Observation], list[Any]] = defaultdict(list)
        traits: set[Trait] = set()
        noted = []
        for o in self.ordered:
            kinds[type(o)].append(o)
            if o.traits:
                traits |= o.traits
            if o.notes is not NO_NOTES:
                noted.append(o)
        contexts = {id(o.session): o.session for o in self.ordered}
        agents = [run for run in kinds[RunSpan] if run.is_agent]
        return Index(
            kinds[ModelCall],
            kinds[ToolUse],
            kinds[RunSpan],
            agents,
            kinds[Handoff],
            noted,
            list(contexts.values()),
            frozenset(traits),
        )

    @property
    def model_calls(self) -> Sequence[ModelCall]:
        """The calls of models, in order."""
        return self.index.model_calls

    @property
    def tools(self) -> Sequence[ToolUse]:
        """The calls of tools that have spans, in order."""
        return self.index.tools

    @property
    def agents(self) -> Sequence[RunSpan]:
        """The runs of agents, in order."""
        return self.index.agents

    def changed(self, changed: Mapping[Node, Observation]) -> Tree:
        """Return the tree with other observations of some spans; itself if there are none."""
        return Tree([changed.get(o.span.node, o) for o in self.ordered]) if changed else self

    def _measure_below_known(self) -> Iterator[Node]:
        """Note the depth and the surroundings of spans that come after their parents; yield the others."""
        by_node, depths, works, nearest = self._by_node, self._depth, self._work_depth, self._nearest
        for node, o in by_node.items():
            parent = node[0], o.span.parent_span_id
            around = by_node.get(parent)  # type: ignore[arg-type]  # None is no span's id
            if around is None:
                self.has_orphans = self.has_orphans or parent[1] is not None
                depths[node], works[node], nearest[node] = 0, 0, None
            elif parent not in depths:
                yield node
            elif isinstance(around, Structure):
                depths[node], works[node], nearest[node] = depths[parent] + 1, works[parent], nearest[parent]
            else:
                depths[node], works[node], nearest[node] = depths[parent] + 1, works[parent] + 1, around

    def _measure(self, node: Node) -> None:
        """Note the depth and the surroundings of a span and of its ancestors."""
        path: list[Node] = []
        visited: set[Node] = set()
        above: Node | None = node
        while above is not None and above not in self._depth and above not in visited:
            visited.add(above)
            path.append(above)
            above = self._parent_node(above)
        for step in reversed(path):
            depth, work = 0, 0
            nearest: Work | None = None
            if above in self._depth:
                around = self._by_node[above]
                is_work = not isinstance(around, Structure)
                depth, work = self._depth[above] + 1, self._work_depth[above] + is_work
                nearest = self._nearest[above] if isinstance(around, Structure) else around
            self._depth[step], self._work_depth[step], self._nearest[step] = depth, work, nearest
            above = step

    def _parent_node(self, node: Node) -> Node | None:
        parent = self._by_node[node].span.parent_span_id
        if parent is None or (node[0], parent) not in self._by_node:
            return None
        return node[0], parent

    def depth(self, observation: Observation) -> int:
        """Return how many recorded ancestors a span has."""
        return self._depth[observation.span.trace_id, observation.span.span_id]

    def parent(self, observation: Observation) -> Observation | None:
        """Return the recorded parent; None for a root, and where spans name each other as parents."""
        node = observation.span.node
        parent = self._parent_node(node)
        if parent is None or self._depth[parent] >= self._depth[node]:
            return None
        return self._by_node[parent]

    def nearest(self, observation: Observation) -> Work | None:
        """Return the nearest ancestor that describes an agent's work (is not of the kind `Structure`)."""
        return self._nearest[observation.span.trace_id, observation.span.span_id]

    def top(self, observation: Observation) -> Observation:
        """Return the topmost recorded ancestor, which is the observation itself without one."""
        passed: list[Node] = []
        at = observation
        while (known := self._top.get(at.span.node)) is None:
            passed.append(at.span.node)
            parent = self.parent(at)
            if parent is None:
                known = at
                break
            at = parent
        self._top.update(dict.fromkeys(passed, known))
        return known

    def agent_of(self, observation: Observation) -> str | None:
        """Return the agent that an observation belongs to: its own, else that of the nearest agent span."""
        if observation.agent or not observation.span.span_id:
            return observation.agent
        passed: list[Node] = []
        name = None
        at = observation
        while (ancestor := self.nearest(at)) is not None:
            if at.span.node in self._agent_above:
                name = self._agent_above[at.span.node]
                break
            passed.append(at.span.node)
            if isinstance(ancestor, RunSpan) and ancestor.is_agent:
                name = ancestor.name
                break
            at = ancestor
        self._agent_above.update(dict.fromkeys(passed, name))
        return name

    def agent_above(self, observation: Observation) -> RunSpan | None:
        """Return the nearest run of an agent around an observation."""
        above = self.nearest(observation)
        while above is not None and not (isinstance(above, RunSpan) and above.is_agent):
            above = self.nearest(above)
        return above

    def agent_model(self, observation: Observation) -> str | None:
        """Return the model that the nearest span of a run or a turn around an observation names."""
        ancestor = self.nearest(observation)
        while ancestor is not None:
            if isinstance(ancestor, RunSpan | TurnSpan) and ancestor.model:
                return ancestor.model
            ancestor = self.nearest(ancestor)
        return None
