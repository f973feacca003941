"""The passes over a session's observations before anything is derived from them, each with its reason.

They run in the order of the lists. `spangrade show --why` lists what each of them changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from spangrade.converters.spans.observation import Observation, fields_of
from spangrade.evaluator.derive.agent_runs import (
    with_agents_named_by_spans,
    with_declared_agents,
    without_plumbing,
)
from spangrade.evaluator.derive.duplicates import merge_duplicates, with_last_attempts, without_answered
from spangrade.evaluator.derive.errors import without_copies
from spangrade.evaluator.derive.shapes import without_doubtful_calls
from spangrade.evaluator.derive.span_tree import Tree, with_topmost_runs
from spangrade.evaluator.derive.tokens import with_sound_tokens

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
    Pass("declared_agents", "it is the outermost run that an agent is declared on", with_declared_agents),
    Pass("plumbing", "it is a node of a graph that calls no model as an agent", without_plumbing),
    Pass("span_names", "no span names its agent: its own name does", with_agents_named_by_spans),
    Pass("topmost_runs", "a function is a run only where no agent's work is around it", with_topmost_runs),
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
