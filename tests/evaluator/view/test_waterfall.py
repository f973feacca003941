"""The bars of a session's spans, and the critical path."""

from __future__ import annotations

from builders import SECOND_NS, llm, session, step, tool

from spangrade.evaluator.reports.html.session_source import SpanRow
from spangrade.evaluator.reports.html.waterfall import Bar, IdleGap, waterfall


def span(span_id: str, parent: str | None, start: float, end: float, **changes: str) -> SpanRow:
    row = SpanRow("t1", span_id, parent, span_id, int(start * SECOND_NS), int(end * SECOND_NS))
    return row._replace(**changes)


RUN = [
    span("root", None, 0, 10),
    span("plan", "root", 1, 3),
    span("fast", "root", 3, 5),
    span("slow", "root", 3, 9),
    span("http", "slow", 4, 8),
]
CALL = llm(span_id="plan", start_ns=SECOND_NS)
SESSION = session(
    [("hi", [tool("fast"), tool("slow", ok=False)])],
    trajectory=(step("shop", "agent", span_id="root"),),
    llm_calls=(CALL,),
)


def test_bars_stand_in_the_order_of_the_tree_with_kind_place_and_own_time_on_the_critical_path() -> None:
    found = waterfall(SESSION, RUN)
    assert found.bars == (
        Bar("t1", "root", "root", "agent", 0, 0.0, 10.0, 0.0, 1000.0, False, 2.0),
        Bar("t1", "plan", "plan", "model", 1, 1.0, 2.0, 100.0, 200.0, False, 2.0, CALL),
        Bar("t1", "slow", "slow", "tool", 1, 3.0, 6.0, 300.0, 600.0, True, 2.0),
        Bar("t1", "http", "http", "other", 2, 4.0, 4.0, 400.0, 400.0, False, 4.0),
        Bar("t1", "fast", "fast", "tool", 1, 3.0, 2.0, 300.0, 200.0, False, None),
    )
    assert (found.axis_s, found.gaps, found.hidden, found.next_skip) == (10.0, (), 0, None)


def test_the_times_on_the_critical_path_add_up_to_the_length() -> None:
    assert sum(bar.critical_s or 0 for bar in waterfall(SESSION, RUN).bars) == 10.0


def test_what_a_child_outlives_its_parent_by_is_not_on_the_critical_path() -> None:
    found = waterfall(session(), [span("root", None, 0, 4), span("late", "root", 3, 9)])
    assert [(bar.name, bar.critical_s) for bar in found.bars] == [("root", 3.0), ("late", 1.0)]


def test_idle_times_between_turns_are_cut_out_of_the_axis() -> None:
    found = waterfall(session(), [span("one", None, 0, 2), span("two", None, 62, 64)])
    assert [(bar.start_s, bar.left, bar.width) for bar in found.bars] == [
        (0.0, 0.0, 500.0),
        (62.0, 500.0, 500.0),
    ]
    assert (found.axis_s, found.gaps) == (4.0, (IdleGap(500.0, 60.0),))


def test_a_page_of_bars_has_the_evidence_too_and_says_where_the_next_begins() -> None:
    first = waterfall(SESSION, RUN, most_bars=2, always={"fast"})
    assert [bar.name for bar in first.bars] == ["root", "plan", "fast"]
    assert (first.hidden, first.next_skip) == (3, 2)
    last = waterfall(SESSION, RUN, most_bars=2, skip=4)
    assert [bar.name for bar in last.bars] == ["fast"]
    assert (last.hidden, last.next_skip) == (0, None)


def test_spans_that_never_ended_or_are_their_own_ancestors_have_bars() -> None:
    spans = [span("a", "b", 1, 2), span("b", "a", 0, 3), span("open", None, 5, 0)]
    found = waterfall(session(), spans)
    assert [(bar.name, bar.depth, bar.duration_s) for bar in found.bars] == [
        ("open", 0, None),
        ("b", 0, 3.0),
        ("a", 0, 1.0),
    ]


def test_a_session_without_spans_has_no_bars() -> None:
    assert waterfall(session(), [])._asdict() == {
        "bars": (),
        "axis_s": 0.0,
        "gaps": (),
        "hidden": 0,
        "next_skip": None,
    }
