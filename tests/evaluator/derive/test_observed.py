"""What records show of their traces, in any order and in any process."""

from __future__ import annotations

import pickle

import pytest
import recordings

from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.derive.settings import NO_SETTINGS
from spangrade.evaluator.derive.sync.observed import observe_records
from spangrade.tracer.span import Span

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.conversation.id": "c"}
SPANS = [
    Span("one", "1", None, "invoke_agent a", "INTERNAL", 10, 20, attributes=AGENT),
    Span("one", "2", "1", "execute_tool t", "INTERNAL", 11, 12, attributes=TOOL),
]


def test_of_spans_of_one_id_the_one_that_ended_last_is_observed() -> None:
    late = SPANS[1]._replace(start_ns=0, end_ns=99)
    given = ([*SPANS, late], [late, *SPANS], [SPANS[0], late])
    observed = [observe_records([spans], (), NO_SETTINGS) for spans in given]
    contents = [sorted(observations) for ((_, observations),) in observed]
    assert contents[0] == contents[1] == contents[2]


@pytest.mark.parametrize("name", ["langgraph_openinference", "openai_agents_double", "crewai"])
def test_observations_of_another_process_make_the_same_session(name: str) -> None:
    spans = [record for record in recordings.records(name) if isinstance(record, Span)]
    observations = list(observe(spans, {}))
    copied = pickle.loads(pickle.dumps(observations))  # noqa: S301 (our own)
    assert list(map(type, copied)) == list(map(type, observations))
    assert build_session("s", "trace", copied) == build_session("s", "trace", observations)
