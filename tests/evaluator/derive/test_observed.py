"""What batches of records show of their traces: joined, it is what all records show together."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import permutations

import pytest
import recordings

from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.derive.settings import NO_SETTINGS, Settings
from spangrade.evaluator.derive.sync.observations import Observations, Order
from spangrade.evaluator.derive.sync.observed import Observed, ObservedTrace, joined, observe_records
from spangrade.tracer.span import LogRecord, Span

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.conversation.id": "c"}
SPANS = [
    Span("one", "1", None, "invoke_agent a", "INTERNAL", 10, 20, attributes=AGENT),
    Span("one", "2", "1", "execute_tool t", "INTERNAL", 11, 12, attributes=TOOL),
]


def traces_in(spans: Sequence[Span]) -> list[ObservedTrace]:
    return observe_records([spans], (), NO_SETTINGS).traces


def test_what_two_batches_show_of_a_trace_is_what_all_its_records_show() -> None:
    (whole,) = observe_records([SPANS], (), NO_SETTINGS).traces
    parts = [one for batch in (SPANS[:1], SPANS[1:]) for one in traces_in(batch)]
    for observed in permutations([*parts, parts[0]]):  # one was delivered again
        both = joined(observed)
        assert both is not None
        assert both.trace == whole.trace
        assert sorted(both.observations or ()) == sorted(whole.observations or ())


def test_spans_with_logs_or_with_session_ids_in_attributes_are_read_together() -> None:
    log = LogRecord(SPANS[1].trace_id, SPANS[1].span_id, 1, "gen_ai.choice", body={"content": "x"})
    by_attribute = Settings(session_from=("session",))
    for logs, settings in (([log], NO_SETTINGS), ([], by_attribute)):
        parts = [
            *observe_records([SPANS[:1]], logs, settings).traces,
            *observe_records([SPANS[1:]], (), settings).traces,
        ]
        assert joined(parts) is None
        assert joined(parts[:1]) == parts[0]


def test_a_span_that_came_with_different_contents_is_read_from_the_database() -> None:
    other = SPANS[0]._replace(name="invoke_agent b", attributes={"gen_ai.operation.name": "invoke_agent"})
    parts = [*traces_in(SPANS), *traces_in([other])]
    assert joined(parts) is None


def test_of_spans_of_one_id_the_one_that_ended_last_is_observed() -> None:
    late = SPANS[1]._replace(start_ns=0, end_ns=99)
    observed = [traces_in(spans) for spans in ([*SPANS, late], [late, *SPANS], [SPANS[0], late])]
    contents = [sorted(one.observations or ()) for (one,) in observed]
    assert contents[0] == contents[1] == contents[2]


@pytest.mark.parametrize("name", ["langgraph_openinference", "openai_agents_double", "crewai"])
def test_observations_of_another_process_make_the_same_session(name: str) -> None:
    spans = [record for record in recordings.records(name) if isinstance(record, Span)]
    observations = list(observe(spans, {}))
    copied = pickle.loads(pickle.dumps(observations))  # noqa: S301 (our own)
    assert list(map(type, copied)) == list(map(type, observations))
    assert build_session("s", "trace", copied) == build_session("s", "trace", observations)


def conversation(number: int) -> list[Span]:
    """Return two turns of a conversation, each a trace of its own."""
    attributes = {**AGENT, "gen_ai.conversation.id": f"c{number}", "gen_ai.input.messages": "hi"}
    return [
        Span(f"{number}.{turn}", "1", None, "invoke_agent a", "INTERNAL", 1, 2, attributes=attributes)
        for turn in (1, 2)
    ]


def test_sessions_that_follow_one_another_are_built_where_they_are_read_but_for_those_at_the_ends() -> None:
    spans = [span for number in range(5) for span in conversation(number)]
    observed = observe_records([spans], (), NO_SETTINGS, by_session=True)
    assert observed.built is not None
    assert observed.built.session_ids == ["c1", "c2", "c3"]
    assert observed.built.traces["c2"] == {"2.1", "2.2"}
    assert [one.trace.session_id for one in observed.traces if one.observations is not None] == [
        *("c0", "c0"),
        *("c4", "c4"),
    ]


def test_a_session_that_was_built_where_it_was_read_counts_if_its_traces_are_whole_and_all() -> None:
    spans = [span for number in range(5) for span in conversation(number)]
    observations = Observations()
    observations.add(observe_records([spans], (), NO_SETTINGS, by_session=True))
    observations.mark_whole(["1.1", "1.2", "2.1", "3.1", "3.2"])
    traces = {"c1": ["1.1", "1.2"], "c2": ["2.1", "2.2"], "c3": ["3.1", "3.2", "linked"]}
    built = observations.built(traces)
    assert built is not None
    assert built.session_ids == ["c1"]  # a trace of c2 is not whole, and one of c3 was read elsewhere
    assert observations.built({"c3": ["3.1"], "c0": ["0.1", "0.2"]}) is None
    assert [(one.trace.trace_id, one.observations) for one in observations.of("1.1")] == [("1.1", None)]
    observations.add(Observed(traces_in(spans[2:3])))
    assert observations.built(traces) is None


def test_what_was_observed_is_the_same_in_memory_and_in_the_file() -> None:
    long = conversation(1)[0].attributes | {"gen_ai.input.messages": "x" * 20_000_000}
    spans = [span._replace(attributes=long) for span in (*conversation(1), *conversation(2))]
    observations = Observations()
    observed = [traces_in([span]) for span in spans]
    for traces in observed:
        observations.add(Observed(traces))
    assert [observations.of(span.trace_id) for span in spans] == observed


def test_sessions_are_built_where_they_are_read_once_batches_show_that_they_follow_one_another() -> None:
    def batch(*numbers: int) -> Observed:
        return observe_records([span for n in numbers for span in [conversation(n)]], (), NO_SETTINGS)

    order = Order()
    seen = []
    for numbers in (range(20), range(19, 40), range(10, 60), range(60, 80)):
        order.add(batch(*numbers))
        seen.append(order.is_by_session)
    assert seen == [False, True, False, True]
