"""Which spans are certainly missing: parents that are not recorded, beneath an agent's run."""

from __future__ import annotations

import pytest
from builders import reading
from paths import RECORDED
from work import lines_executed

from spangrade.converters.spans.observation import Kind, Observation
from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive.completeness import missing_spans
from spangrade.evaluator.derive.span_tree import Tree
from spangrade.tracer.files import read
from spangrade.tracer.span import Span

NAMES = sorted(
    path.name.partition(".")[0] for path in RECORDED.glob("*.otlp.jsonl") if ".logs." not in path.name
)


def span(span_id: str, parent: str | None, kind: Kind, start: int, end: int, trace: str = "t") -> Observation:
    return reading(kind, span_id, parent, (start, end), name=span_id, trace_id=trace).observation


def missing(*observations: Observation) -> int:
    return missing_spans(Tree(observations))


def test_beneath_an_agents_root_every_missing_parent_counts() -> None:
    root = span("root", None, "agent", 0, 10)
    assert missing(root, span("a", "root", "llm", 0, 1)) == 0
    assert missing(root, span("a", "lost", "llm", 0, 1), span("b", "lost", "tool", 1, 2)) == 1
    assert missing(root, span("a", "lost", "llm", 0, 1), span("late", "lost too", "llm", 20, 30)) == 2


def test_a_missing_parent_above_everything_may_be_a_callers() -> None:
    assert missing(span("a", "caller", "agent", 0, 5)) == 0
    assert missing(span("a", "caller", "llm", 0, 5), span("b", "caller", "tool", 5, 6)) == 0


def test_a_caller_that_exports_elsewhere_may_call_one_after_the_other() -> None:
    first, second = span("a", "request 1", "agent", 0, 5), span("b", "request 2", "agent", 6, 9)
    assert missing(first, span("a llm", "a", "llm", 1, 2), second, span("b llm", "b", "llm", 7, 8)) == 0
    assert missing(span("a", "request 1", "llm", 0, 5), span("b", "request 2", "llm", 1, 2)) == 0


def test_a_span_during_an_agents_run_that_it_does_not_descend_from_lost_its_parent() -> None:
    run = span("run", "caller", "agent", 0, 10)
    assert missing(run, span("a", "lost", "tool", 3, 4)) == 1
    assert missing(run, span("a", "lost", "tool", 9, 12)) == 0
    assert missing(run, span("a", "lost", "tool", 3, 0)) == 1  # its end was not recorded
    web = span("POST /chat", None, "other", 0, 10)
    assert missing(web, span("run", "proxy", "agent", 1, 9)) == 0
    assert missing(web, span("run", "proxy", "agent", 1, 9), span("a", "lost", "llm", 2, 3)) == 1


def test_an_orphans_own_runs_and_those_of_other_traces_do_not_count() -> None:
    orphan = span("top", "caller", "other", 1, 9)
    assert missing(orphan, span("run", "top", "agent", 0, 10)) == 0
    assert missing(orphan, span("root", None, "agent", 0, 10, trace="u")) == 0


def test_a_span_that_is_its_own_parent_misses_none() -> None:
    assert (
        missing(span("a", "a", "agent", 0, 1), span("b", "c", "llm", 0, 1), span("c", "b", "llm", 0, 1)) == 0
    )


def test_many_orphans_beside_many_runs_do_not_take_quadratic_time() -> None:
    def lines(count: int) -> int:
        tree = Tree([span(f"{i}", f"lost {i}", "agent", i, 2 * i + 1) for i in range(count)])
        return lines_executed(lambda: missing_spans(tree))

    assert lines(2000) < 3 * lines(1000)  # quadratic: 4 times as many


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_recording_misses_no_span_but_each_one_that_is_removed_from_its_middle(name: str) -> None:
    spans = [record for record in read(RECORDED / f"{name}.otlp.jsonl") if isinstance(record, Span)]
    observed = observe(spans, {})
    assert missing(*observed) == 0
    parents = {(o.span.trace_id, o.span.parent_span_id) for o in observed}
    middle = [o for o in observed if o.span.parent_span_id and o.span.node in parents]
    for lost in middle:
        assert missing(*(o for o in observed if o is not lost)) == 1
