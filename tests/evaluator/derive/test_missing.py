"""Which spans are known to be missing: those that what is recorded of an agent names as parents."""

from __future__ import annotations

import time

import pytest
from paths import RECORDED

from spangrade.converters.spans.observation import Kind, Observation
from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive.completeness import missing_spans
from spangrade.evaluator.derive.span_tree import Tree
from spangrade.tracer.files import read
from spangrade.tracer.span import Span

NAMES = sorted(
    path.name.partition(".")[0] for path in RECORDED.glob("*.otlp.jsonl") if ".logs." not in path.name
)


def seen(span: str, parent: str | None, kind: Kind, start: int, end: int, trace: str = "t") -> Observation:
    return Observation(kind, trace, span, parent, start, end, name=span)


def missing(*observations: Observation) -> int:
    return missing_spans(Tree(observations))


def test_beneath_a_root_that_is_an_agents_every_missing_parent_is_a_hole() -> None:
    root = seen("root", None, "agent", 0, 10)
    assert missing(root, seen("a", "root", "llm", 0, 1)) == 0
    assert missing(root, seen("a", "lost", "llm", 0, 1), seen("b", "lost", "tool", 1, 2)) == 1
    assert missing(root, seen("a", "lost", "llm", 0, 1), seen("late", "lost too", "llm", 20, 30)) == 2


def test_one_missing_parent_above_everything_may_be_a_callers() -> None:
    assert missing(seen("a", "caller", "agent", 0, 5)) == 0
    assert missing(seen("a", "caller", "llm", 0, 5), seen("b", "caller", "tool", 5, 6)) == 0


def test_a_caller_that_exports_elsewhere_may_call_one_after_the_other() -> None:
    first, second = seen("a", "request 1", "agent", 0, 5), seen("b", "request 2", "agent", 6, 9)
    assert missing(first, seen("a llm", "a", "llm", 1, 2), second, seen("b llm", "b", "llm", 7, 8)) == 0
    assert missing(seen("a", "request 1", "llm", 0, 5), seen("b", "request 2", "llm", 1, 2)) == 0


def test_what_ran_within_an_agents_run_that_it_is_not_under_lost_its_parent_there() -> None:
    run = seen("run", "caller", "agent", 0, 10)
    assert missing(run, seen("a", "lost", "tool", 3, 4)) == 1
    assert missing(run, seen("a", "lost", "tool", 9, 12)) == 0
    assert missing(run, seen("a", "lost", "tool", 3, 0)) == 1  # its end was not recorded
    web = seen("POST /chat", None, "other", 0, 10)
    assert missing(web, seen("run", "proxy", "agent", 1, 9)) == 0
    assert missing(web, seen("run", "proxy", "agent", 1, 9), seen("a", "lost", "llm", 2, 3)) == 1


def test_an_orphans_own_runs_and_those_of_other_traces_tell_nothing_of_it() -> None:
    orphan = seen("top", "caller", "other", 1, 9)
    assert missing(orphan, seen("run", "top", "agent", 0, 10)) == 0
    assert missing(orphan, seen("root", None, "agent", 0, 10, trace="u")) == 0


def test_a_span_that_is_its_own_parent_names_no_missing_one() -> None:
    assert (
        missing(seen("a", "a", "agent", 0, 1), seen("b", "c", "llm", 0, 1), seen("c", "b", "llm", 0, 1)) == 0
    )


def test_many_orphans_beside_many_runs_take_no_quadratic_time() -> None:
    many = [seen(f"{i}", f"lost {i}", "agent", i, 2 * i + 1) for i in range(20_000)]
    tree = Tree(many)
    started = time.perf_counter()
    assert missing_spans(tree) < len(many)
    assert time.perf_counter() - started < 20  # quadratic, it would take minutes


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_recording_misses_nothing_and_each_span_lost_from_its_middle_is_missed(name: str) -> None:
    spans = [span for span in read(RECORDED / f"{name}.otlp.jsonl") if isinstance(span, Span)]
    observed = observe(spans, {})
    assert missing(*observed) == 0
    parents = {(o.trace_id, o.parent_span_id) for o in observed}
    middle = [o for o in observed if o.parent_span_id and (o.trace_id, o.span_id) in parents]
    for lost in middle:
        assert missing(*(o for o in observed if o is not lost)) == 1
