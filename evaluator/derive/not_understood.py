"""Spans that look like an agent's and that no dialect understood: their number, and the unknown facts.

They are counted by scope, also in traces without a session. A scope that is not of interest is ignored, by a
setting of the database.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import orjson

from spangrade.converters.spans.observation import NAMELESS, ModelCall, Observation, Structure, ToolUse
from spangrade.evaluator.derive.passes import without_doubtful_calls
from spangrade.evaluator.derive.settings import settings_of
from spangrade.evaluator.derive.span_tree import Tree
from spangrade.evaluator.session import Latency, Session, Usage
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

_SQL = "spangrade.evaluator.derive.sync.sql"
_OF_TOOLS = re.compile(r"(?<![a-z])(?:tool|function)s?(?![a-z])")
_MOST_EXAMPLES = 20  # spans of a scope whose attributes are named


def spans_not_understood(tree: Tree) -> list[Observation]:
    """Return the spans of a tree that look like an agent's, have no known kind, and may record more.

    One that only holds understood spans together is not among them, nor is one inside a call that is
    understood, nor one that sums up the run of an agent with spans of its own.
    """
    candidates = [o for o in tree.index.noted if o.notes.not_understood is not None]
    if not candidates:
        return []
    holding: set[tuple[str, str]] = set()
    for observation in tree.ordered:
        ancestor = None if isinstance(observation, Structure) else tree.parent(observation)
        while ancestor is not None and ancestor.span.node not in holding:
            holding.add(ancestor.span.node)
            ancestor = tree.parent(ancestor)
    agents = {run.name for run in tree.agents}
    return [
        o
        for o in candidates
        if o.span.node not in holding
        and (o.notes.sums_up is None or o.notes.sums_up not in agents)
        and not isinstance(tree.nearest(o), ModelCall | ToolUse)
    ]


def with_unknowns(session: Session) -> Session:
    """Return a session in which everything is unknown that spans which were not understood may change."""
    return replace(
        session,
        handoffs=session.handoffs or None,
        usage=Usage(),
        models=None,
        cost_usd=None,
        cost_unknown=None,
        latency=Latency(total_s=session.latency.total_s),
    )


def counted(observations: Sequence[Observation]) -> tuple[tuple[str, int, int, str], ...]:
    """Return how many spans of a trace were not understood, and how many of these look like calls of tools.

    They are counted by scope ("" is no scope), with the id of one: the first that looks like a tool's call,
    else the first.
    """
    if all(o.notes.not_understood is None for o in observations):
        return ()
    tree = Tree(without_doubtful_calls(observations))
    unread = spans_not_understood(tree)
    scopes = Counter(o.notes.not_understood or "" for o in unread)
    of_tools = [o for o in unread if _looks_like_a_tool(o)]
    tools = Counter(o.notes.not_understood or "" for o in of_tools)
    first = {o.notes.not_understood or "": o.span.span_id for o in reversed((*of_tools, *unread))}
    return tuple(sorted((scope, number, tools[scope], first[scope]) for scope, number in scopes.items()))


def _looks_like_a_tool(o: Observation) -> bool:
    return o.notes.unfinished == NAMELESS or _OF_TOOLS.search((o.span.name or "").lower()) is not None


def by_scope(store: Store) -> dict[str, int]:
    """Return how many spans of each scope were not understood, the most first; "" is no scope."""
    query = "SELECT scope, sum(spans)::BIGINT FROM derived.not_understood GROUP BY scope ORDER BY 2 DESC, 1"
    return dict(store.query(query))


class ScopeSpans(NamedTuple):
    """Spans of one scope ("" is no scope), the names of the first ones' attributes, and the ids of one."""

    session_id: str | None
    scope: str
    spans: int
    attributes: tuple[str, ...]
    example: tuple[str, str]


def by_session(store: Store, session_ids: Sequence[str] | None) -> list[ScopeSpans]:
    """Return the spans of all sessions, or of some, that were not understood, by session and scope.

    A trace that is not a session stands under its own id.
    """
    parameters = {"sessions": session_ids, "most": _MOST_EXAMPLES}
    return _scope_spans(store.query(statement("spans_not_understood", _SQL), parameters))


def without_session(store: Store) -> list[ScopeSpans]:
    """Return the spans of the last import by scope if it brought none of a session, ignored scopes left out.

    Where nothing was imported, these are all spans if the database has no session.
    """
    ((has_session,),) = store.query(statement("has_session", _SQL))
    if has_session:
        return []
    ignored = settings_of(store).ignored_scopes
    found = _scope_spans(store.query(statement("spans_without_session", _SQL), {"most": _MOST_EXAMPLES}))
    return [one for one in found if one.scope not in ignored]


def _scope_spans(
    rows: Iterable[tuple[str | None, str, int, Sequence[str], dict[str, str]]],
) -> list[ScopeSpans]:
    return [
        ScopeSpans(
            session,
            scope,
            spans,
            tuple(sorted({key for text in attributes for key in orjson.loads(text)})),
            (example["trace_id"], example["span_id"]),
        )
        for session, scope, spans, attributes, example in rows
    ]
