"""Observations are kept within a limit, and only for the records and the settings that they come from."""

from __future__ import annotations

from types import MappingProxyType

import pytest
import recordings
from builders import observation

from spangrade.converters.spans.observation import Observation
from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.derive.sync.kept import Kept, packed, unpacked
from spangrade.evaluator.derive.sync.recorded import TraceRange
from spangrade.tracer.span import Span

ONE, OTHER = TraceRange("one", 1, 5), TraceRange("other", 6, 9)
OBSERVATION = Observation("tool", "one", "1", None, 10, 20, arguments='{"a": 1}', state=((10, {"a": [1]}),))


def test_packed_observations_are_equal_when_they_are_unpacked() -> None:
    content = packed([OBSERVATION])
    assert isinstance(content, bytes)
    assert packed(content) is content
    assert unpacked(content) == unpacked([OBSERVATION]) == [OBSERVATION]


def test_what_cannot_be_packed_is_not_kept() -> None:
    state = MappingProxyType({"a": 1})  # of a third-party dialect
    kept = Kept()
    kept.add(ONE, 1, "s", [OBSERVATION._replace(state=((1, state),))])
    assert kept.take(ONE, 1, "s") is None


def test_a_trace_is_taken_once() -> None:
    kept = Kept()
    kept.add(ONE, 3, "settings", b"content")
    assert kept.take(ONE, 3, "settings") == b"content"
    assert kept.take(ONE, 3, "settings") is None
    assert kept.take(OTHER, 3, "settings") is None


def test_a_trace_with_other_records_or_settings_is_not_taken() -> None:
    for trace, records, settings in ((ONE._replace(last_seq=6), 3, "s"), (ONE, 4, "s"), (ONE, 3, "t")):
        kept = Kept()
        kept.add(ONE, 3, "s", b"content")
        assert kept.take(trace, records, settings) is None


def test_no_more_than_the_limit_is_kept() -> None:
    kept = Kept(limit=10)
    kept.add(ONE, 1, "s", b"12345678")
    kept.add(OTHER, 1, "s", b"123")
    assert kept.take(OTHER, 1, "s") is None
    kept.add(ONE, 2, "s", b"1234567")  # in place of what was kept before
    kept.add(OTHER, 1, "s", b"123")
    assert (kept.take(ONE, 2, "s"), kept.take(OTHER, 1, "s")) == (b"1234567", b"123")


@pytest.mark.parametrize("name", ["langgraph_openinference", "openai_agents_double", "crewai"])
def test_unpacked_observations_make_the_same_session(name: str) -> None:
    spans = [record for record in recordings.records(name) if isinstance(record, Span)]
    observations = list(observe(spans, {}))
    assert build_session("s", "trace", unpacked(packed(observations))) == build_session(
        "s", "trace", observations
    )


def test_an_unpacked_turn_is_still_one_whatever_messages_are_in_it() -> None:
    turn = observation("turn", "turn", None, (0, 9), user_input="one")
    first = observation("llm", "1", "turn", (1, 2), user_input="one", response="first")
    second = observation("llm", "2", "turn", (3, 4), user_input="two", previous_reply="first")
    session = build_session("s", "trace", unpacked(packed([turn, first, second])))
    assert [made.user_input for made in session.turns] == ["one"]
