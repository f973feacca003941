"""The passes over a session's observations before anything is derived from them, each with its reason.

They run in the order of the lists. `spangrade show --why` lists what each of them changed. A framework's own
record of an agent stays one, also without model calls; a node of a graph, and a run that only its span names,
is an agent's by what is around it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from spangrade.converters.spans.observation import (
    NO_TOKENS,
    MessageCall,
    ModelCall,
    Notes,
    Observation,
    RunSpan,
    SessionContext,
    Structure,
    ToolUse,
    Traits,
    Work,
    fields_of,
    nameless,
    structure_of,
)
from spangrade.evaluator.derive.duplicates import merge_duplicates, with_last_attempts, without_answered
from spangrade.evaluator.derive.errors import without_copies
from spangrade.evaluator.derive.span_tree import Node, Tree
from spangrade.evaluator.derive.tokens import with_sound_tokens

_DOUBTFUL: Traits = frozenset({"by_content", "by_shape", "inferred", "of_bus"})
_PLUMBING: Traits = frozenset({"is_node", "is_workflow"})


def without_doubtful_calls(observations: Sequence[Observation]) -> Sequence[Observation]:
    """Return observations in which a span that only looks like a call is one only where it holds no other.

    A span with a model and tokens may be the sum of the calls inside it. One that names no operation counts
    only in traces without other model calls, and one of a tool's outcome only directly below that tool. A
    message of a bus counts beside model calls if it requests a call that no other span has, without tokens. A
    question with its answer is a turn's in a trace that has a model call, a tool or tokens.
    """
    if all(not o.traits or _DOUBTFUL.isdisjoint(o.traits) for o in observations):
        return observations
    calls = [o for o in observations if isinstance(o, ModelCall | ToolUse) and not _is_outcome(o)]
    tools = {o.span.node for o in calls if isinstance(o, ToolUse)}
    certain = {o.span.trace_id for o in calls if isinstance(o, ModelCall) and "by_shape" not in o.traits}
    parents = {o.span.node: o.span.parent_span_id for o in observations}
    around: dict[type[Observation], set[Node]] = defaultdict(set)
    for call in calls:
        passed = around[type(call)]
        above = call.span.parent_span_id
        while above is not None and (call.span.trace_id, above) not in passed:
            passed.add((call.span.trace_id, above))
            above = parents.get((call.span.trace_id, above))
    has_calls = any(isinstance(o, ModelCall) and "of_bus" not in o.traits for o in calls)
    unseen_by = _Requests(calls).unseen_by
    at_work = {o.span.trace_id for o in calls}
    at_work |= {o.span.trace_id for o in observations if isinstance(o, RunSpan) and o.tokens != NO_TOKENS}

    def is_none(o: Observation) -> bool:
        if _is_outcome(o):
            return (o.span.trace_id, o.span.parent_span_id) not in tools
        return (
            o.span.node in around[type(o)]
            or ("by_shape" in o.traits and o.span.trace_id in certain)
            or ("inferred" in o.traits and o.span.trace_id not in at_work)
            or ("of_bus" in o.traits and has_calls and not unseen_by(o))
        )

    def decided(o: Observation) -> Observation:
        if not _DOUBTFUL & o.traits:
            return o
        if is_none(o):
            return _structure(o)
        if isinstance(o, ModelCall) and "of_bus" in o.traits and has_calls:
            o = o._replace(tokens=NO_TOKENS)  # they may be those of a model call
        return o._replace(notes=o.notes._replace(not_understood=None))

    return [decided(o) for o in observations]


class _Requests:
    """The calls of tools that spans have which are no messages of a bus."""

    def __init__(self, calls: Iterable[ModelCall | ToolUse]) -> None:
        self._ids: set[str] = set()
        self._without_id: Counter[str | None] = Counter()
        for o in calls:
            if "of_bus" in o.traits:
                continue
            for call in (
                (o,) if isinstance(o, ToolUse) else (*o.exchange.tool_calls, *o.exchange.repeated_calls)
            ):
                if call.call_id:
                    self._ids.add(call.call_id)
                else:
                    self._without_id[call.name] += 1

    def unseen_by(self, o: Observation) -> bool:
        """Return whether a message requests a call that has none of the ids, and no namesake without one."""
        return isinstance(o, ModelCall) and any(map(self._is_unseen, o.exchange.tool_calls))

    def _is_unseen(self, call: MessageCall) -> bool:
        return call.call_id not in self._ids and not self._without_id[call.name]


def _is_outcome(o: Observation) -> bool:
    """Return whether a span only records the outcome of the tool above it."""
    return isinstance(o, ToolUse) and o.name is None and "by_content" in o.traits


def _structure(o: Observation) -> Structure:
    """Return a span that is not a call as structure: its place in the tree."""
    return Structure(
        o.span,
        SessionContext(conversation_id=o.session.conversation_id, question_id=o.session.question_id),
        Notes(not_understood=o.notes.not_understood),
    )


def with_checks(tree: Tree) -> Tree:
    """Return the tree in which what a guardrail or an evaluator does is marked: no text of it is a reply."""
    if "is_check" not in tree.index.traits:
        return tree
    inside: set[Node] = set()
    changed: dict[Node, Observation] = {}
    for o in sorted(tree.ordered, key=tree.depth):
        above = tree.parent(o)
        if "is_check" in o.traits or (above is not None and above.span.node in inside):
            inside.add(o.span.node)
            changed[o.span.node] = o._replace(traits=o.traits | {"in_check"})
    return tree.changed(changed)


def with_declared_agents(tree: Tree) -> Tree:
    """Return the tree in which the outermost run that an agent is declared on is that agent's run.

    Only where no span is the run of that agent: then the runs inside it are the agent's parts.
    """
    declaring = [run for run in tree.index.runs if run.declares_agent and not run.is_agent]
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
    """Return the tree in which a node of a graph is an agent only if a model call names it.

    A model call below it says nothing: nodes of any kind call models. An agent with the name of a workflow is
    none if another agent is below it and no model call is its own.
    """
    if _PLUMBING.isdisjoint(tree.index.traits):
        return tree
    doubtful = [run for run in tree.agents if not _PLUMBING.isdisjoint(run.traits)]
    calling = {(call.span.trace_id, call.agent) for call in tree.model_calls if call.agent}
    calls = [call for call in tree.model_calls if call.agent is None]
    own = {above.span.node for call in calls if (above := tree.agent_above(call)) is not None}
    holding: set[Node] = set()
    for run in tree.agents:
        above = tree.agent_above(run)
        while above is not None and above.span.node not in holding:
            holding.add(above.span.node)
            above = tree.agent_above(above)
    return tree.changed(
        {
            run.span.node: run._replace(is_agent=False, name=None, agent=None)
            for run in doubtful
            if (run.span.trace_id, run.name) not in calling
            and ("is_node" in run.traits or (run.span.node in holding and run.span.node not in own))
        }
    )


def with_agents_named_by_spans(tree: Tree) -> Tree:
    """Return the tree in which a run of an agent without a name has that of its span.

    Only where no span in it, and none of its instrumentation, names an agent.
    """
    unnamed = [run for run in tree.index.runs if run.candidate and not run.name]
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


def without_parts_of_calls(tree: Tree) -> Tree:
    """Return the tree without the spans in a tool's call that only their own names make calls of tools.

    They may be what an instrumentation records of that call, such as its error, as well as another call.
    """
    if "named_by_span" not in tree.index.traits:
        return tree
    parts: dict[Node, Observation] = {}
    for tool in tree.tools:
        above: Work | None = tool
        while isinstance(above, ToolUse) and "named_by_span" in above.traits:
            above = tree.nearest(above)
        if isinstance(above, ToolUse) and above is not tool:
            part = structure_of(tool)._replace(failure=None)
            parts[tool.span.node] = part if tool.name == above.name else nameless(part)
    return tree.changed(parts)


def with_topmost_runs(tree: Tree) -> Tree:
    """Return the tree in which functions that are runs only where they are topmost are runs only there."""
    if "only_topmost" not in tree.index.traits:
        return tree
    inner: dict[Node, Observation] = {}
    for o in tree.ordered:
        if "only_topmost" in o.traits and tree.nearest(o) is not None:
            inner[o.span.node] = structure_of(o)._replace(notes=o.notes._replace(state=()))
    return tree.changed(inner)


_Spans = TypeVar("_Spans")


class Pass(NamedTuple, Generic[_Spans]):
    """A step that changes the observations of a session; `reason` says why, for people."""

    name: str
    reason: str
    run: Callable[[_Spans], _Spans]


BEFORE_THE_TREE: Sequence[Pass[Sequence[Observation]]] = (
    Pass(
        "doubtful_calls",
        "a span that only looks like a model call does not count beside, or around, other model calls",
        without_doubtful_calls,
    ),
    Pass(
        "sound_tokens",
        "the input of a model call includes what was cached, and an output is what the total leaves",
        with_sound_tokens,
    ),
    Pass("copied_failures", "the instrumentation copied an earlier span's failure", without_copies),
)
IN_THE_TREE: Sequence[Pass[Tree]] = (
    Pass("checks", "a guardrail or an evaluator made it: its text is not the reply", with_checks),
    Pass("declared_agents", "it is the outermost run that an agent is declared on", with_declared_agents),
    Pass(
        "plumbing",
        "it is a node of a graph, or a workflow of agents, and no model call names it",
        without_plumbing,
    ),
    Pass("span_names", "no span names its agent: its own name does", with_agents_named_by_spans),
    Pass("topmost_runs", "a function is a run only where no agent's work is around it", with_topmost_runs),
    Pass("parts_of_calls", "it is a part of the tool's call around it", without_parts_of_calls),
    Pass("attempts", "the call was taken up again later, under the same id", with_last_attempts),
    Pass("answered_calls", "a span of the agent's own records a call that its answer has", without_answered),
    Pass("duplicates", "two spans record one call, which counts once", merge_duplicates),
)


def prepared(observations: Iterable[Observation]) -> Tree:
    """Return the tree of a session's observations after all passes."""
    spans: Sequence[Observation] = list(observations)
    for before in BEFORE_THE_TREE:
        spans = before.run(spans)
    tree = Tree(spans)
    for within in IN_THE_TREE:
        tree = within.run(tree)
    return tree


class SpanChange(NamedTuple):
    """A pass's change of a span: the values of its fields before and after."""

    by: str
    reason: str
    observation: Observation
    fields: Mapping[str, tuple[object, object]]


def changes(observations: Iterable[Observation]) -> Iterator[SpanChange]:
    """Yield the changes of each pass, in the order of the passes and of the spans."""
    tree = Tree(observations)
    for before in BEFORE_THE_TREE:
        after = Tree(before.run(tree.ordered))
        yield from _changes(before.name, before.reason, tree, after)
        tree = after
    for within in IN_THE_TREE:
        after = within.run(tree)
        yield from _changes(within.name, within.reason, tree, after)
        tree = after


def _changes(name: str, reason: str, before: Tree, after: Tree) -> Iterator[SpanChange]:
    changed = {o.span.node: o for o in after.ordered}
    for old in before.ordered:
        if (new := changed[old.span.node]) != old or type(new) is not type(old):
            now = dict(fields_of(new))
            known = ((field, value, now[field]) for field, value in fields_of(old) if field in now)
            fields = {field: (value, new_value) for field, value, new_value in known if value != new_value}
            yield SpanChange(name, reason, old, fields)
