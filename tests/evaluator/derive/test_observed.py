"""What batches of records show of their traces: joined, it is what all records show together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from types import MappingProxyType
from typing import get_args

import pytest
import recordings
from builders import reading

from spangrade.converters.spans.observation import Kind, Notes, Observation, SpanFailure, SpanRef, ToolUse
from spangrade.converters.spans.reading import observation_of
from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.derive.settings import NO_SETTINGS, Settings
from spangrade.evaluator.derive.sync.observed import joined, observe_records, packed, unpacked
from spangrade.tracer.span import LogRecord, Span

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.conversation.id": "c"}
SPANS = [
    Span("one", "1", None, "invoke_agent a", "INTERNAL", 10, 20, attributes=AGENT),
    Span("one", "2", "1", "execute_tool t", "INTERNAL", 11, 12, attributes=TOOL),
]
TOOL_CALL = ToolUse(
    SpanRef("one", "1", None, 10, 20),
    notes=Notes(state=((10, {"a": [1]}),)),
    failure=SpanFailure("no", raised=True),
    traits=frozenset({"approved"}),
    arguments='{"a": 1}',
)
OF_EACH_KIND: Sequence[Observation] = [
    *(
        observation_of(
            reading(kind, kind, "parent", conversation_id="c", tags=("x",), user_input="hi", input_tokens=1)
        )
        for kind in get_args(Kind)
    ),
    TOOL_CALL,
]


def test_packed_observations_are_equal_and_of_their_kinds_when_they_are_unpacked() -> None:
    assert repr(unpacked(packed(OF_EACH_KIND))) == repr(OF_EACH_KIND)


def test_state_of_a_type_that_cannot_be_packed_is_packed_as_json() -> None:
    state = MappingProxyType({"a": 1})  # of a third-party dialect
    content = packed([TOOL_CALL._replace(notes=Notes(state=((1, state),)))])
    assert unpacked(content) == [TOOL_CALL._replace(notes=Notes(state=((1, {"a": 1}),)))]


def test_what_two_batches_show_of_a_trace_is_what_all_its_records_show() -> None:
    (whole,) = observe_records([SPANS], (), NO_SETTINGS)
    parts = [one for batch in (SPANS[:1], SPANS[1:]) for one in observe_records([batch], (), NO_SETTINGS)]
    for observed in permutations([*parts, parts[0]]):  # one was delivered again
        both = joined(observed)
        assert both is not None
        assert both.trace == whole.trace
        assert sorted(unpacked(both.observations)) == sorted(unpacked(whole.observations))


def test_spans_with_logs_or_with_session_ids_in_attributes_are_read_together() -> None:
    log = LogRecord(SPANS[1].trace_id, SPANS[1].span_id, 1, "gen_ai.choice", body={"content": "x"})
    by_attribute = Settings(session_from=("session",))
    for logs, settings in (([log], NO_SETTINGS), ([], by_attribute)):
        parts = [
            *observe_records([SPANS[:1]], logs, settings),
            *observe_records([SPANS[1:]], (), settings),
        ]
        assert joined(parts) is None
        assert joined(parts[:1]) == parts[0]


def test_a_span_that_came_with_different_contents_is_read_from_the_database() -> None:
    other = SPANS[0]._replace(name="invoke_agent b", attributes={"gen_ai.operation.name": "invoke_agent"})
    parts = [*observe_records([SPANS], (), NO_SETTINGS), *observe_records([[other]], (), NO_SETTINGS)]
    assert joined(parts) is None


def test_of_spans_of_one_id_the_one_that_ended_last_is_observed() -> None:
    late = SPANS[1]._replace(start_ns=0, end_ns=99)
    observed = [
        observe_records([spans], (), NO_SETTINGS)
        for spans in ([*SPANS, late], [late, *SPANS], [SPANS[0], late])
    ]
    contents = [sorted(unpacked(one.observations)) for (one,) in observed]
    assert contents[0] == contents[1] == contents[2]


@pytest.mark.parametrize("name", ["langgraph_openinference", "openai_agents_double", "crewai"])
def test_unpacked_observations_make_the_same_session(name: str) -> None:
    spans = [record for record in recordings.records(name) if isinstance(record, Span)]
    observations = list(observe(spans, {}))
    assert build_session("s", "trace", unpacked(packed(observations))) == build_session(
        "s", "trace", observations
    )


def test_an_unpacked_turn_is_still_one_whatever_messages_are_in_it() -> None:
    turn = reading("turn", "turn", None, (0, 9), user_input="one")
    first = reading("llm", "1", "turn", (1, 2), user_input="one", response="first")
    second = reading("llm", "2", "turn", (3, 4), user_input="two", previous_reply="first")
    observations = list(map(observation_of, (turn, first, second)))
    session = build_session("s", "trace", unpacked(packed(observations)))
    assert [made.user_input for made in session.turns] == ["one"]
