"""Spans that a recording ought to have and has not.

A span whose parent is not recorded proves no hole by itself: the parent of the topmost spans may be a
caller's, a web front-end that exports elsewhere. The hole is certain only beneath what is recorded of an
agent: where the trace's root is an agent's run, so that every other span descends from it, or where the span
ran within an agent's run that it is not recorded under.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.span_tree import Tree

_RUNS = frozenset({"turn", "workflow", "agent"})


def orphans(tree: Tree) -> list[Observation]:
    """Return the spans that name a parent which is not recorded."""
    found = [o for o in tree.ordered if o.parent_span_id is not None and not tree.depth(o)]
    if not found:
        return found
    recorded = {(o.trace_id, o.span_id) for o in tree.ordered}
    return [o for o in found if (o.trace_id, o.parent_span_id) not in recorded]


def missing_spans(tree: Tree) -> int:
    """Return how many spans are missing beneath an agent's run: each the parent of one that is there."""
    lost: dict[str, list[Observation]] = {}
    for orphan in orphans(tree):
        lost.setdefault(orphan.trace_id, []).append(orphan)
    if not lost:
        return 0
    tops: dict[tuple[str, str], str] = {}
    runs: dict[str, list[tuple[Observation, str]]] = {trace_id: [] for trace_id in lost}
    for seen in sorted(tree.ordered, key=tree.depth):
        above = tree.parent(seen)
        top = seen.span_id if above is None else tops[above.trace_id, above.span_id]
        tops[seen.trace_id, seen.span_id] = top
        if seen.kind in _RUNS and seen.trace_id in lost:
            runs[seen.trace_id].append((seen, top))
    holes = {
        (trace_id, orphan.parent_span_id)
        for trace_id, found in lost.items()
        for orphan in _beneath(found, runs[trace_id])
    }
    return len(holes)


def _beneath(lost: list[Observation], runs: list[tuple[Observation, str]]) -> Iterable[Observation]:
    """Return a trace's orphans that stand beneath its runs, each given with the id of its topmost span."""
    if any(run.parent_span_id is None for run, _ in runs):
        return lost
    return _during(lost, runs)


def _during(lost: list[Observation], runs: list[tuple[Observation, str]]) -> Iterator[Observation]:
    moments = [(run.start_ns, False, run.end_ns, top, run) for run, top in runs]
    moments += [(o.start_ns, True, max(o.start_ns, o.end_ns), o.span_id, o) for o in lost]
    # Of the runs that began before, the two topmost spans whose reach furthest are enough: an orphan's own
    # tell nothing of it.
    furthest: dict[str, int] = {}
    for _, is_orphan, end_ns, top, seen in sorted(moments, key=lambda moment: moment[:4]):
        if not is_orphan:
            furthest[top] = max(end_ns, furthest.get(top, 0))
            if len(furthest) > 2:
                del furthest[min(furthest, key=lambda one: furthest[one])]
        elif any(end_ns <= reach for other, reach in furthest.items() if other != top):
            yield seen
