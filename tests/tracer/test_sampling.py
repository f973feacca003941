"""Head sampling: whole conversations, and what the spans say of a sampler that decides per trace."""

from __future__ import annotations

import json
import logging
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider, sampling
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    DEFAULT_ON,
    ParentBased,
    Sampler,
    TraceIdRatioBased,
)
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState
from opentelemetry.util._once import Once

import spangrade
from spangrade import InputError, agent, configure, session, tool, turn
from spangrade.tracer import _operation
from spangrade.tracer.exporter import SessionSpanProcessor
from spangrade.tracer.sampling import ConversationSampler, DisclosingSampler, set_sampling

GOLDEN = {
    "golden_questions": [
        {
            "id": "q",
            "user_inputs": ["Where is it?", "Really?"],
            "agents_evaluated": ["support"],
            "reference_data": {
                "reference_tool_interactions": [
                    {"tool_name": "look_up", "input_arguments": {"order_id": "A"}}
                ]
            },
        }
    ]
}


class SeededIds(RandomIdGenerator):
    """Trace ids that are the same in every run of a test."""

    def __init__(self) -> None:
        self._random = random.Random(3)

    def generate_trace_id(self) -> int:
        return self._random.getrandbits(128)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A process that has set no provider yet, in an empty folder."""
    for name in ("SPANGRADE_DB", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    monkeypatch.setattr(_operation, "_tracer", trace.ProxyTracer("spangrade.tracer"))
    monkeypatch.chdir(tmp_path)
    yield
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.shutdown()


@pytest.fixture
def recorded() -> Callable[..., SimpleNamespace]:
    """Return a function that sets a provider up: its `spans()` are those it has recorded so far."""

    def with_sampling(sampler: Sampler, sample: float | None) -> SimpleNamespace:
        memory = InMemorySpanExporter()
        provider = TracerProvider(sampler=sampler, id_generator=SeededIds())
        early = provider.get_tracer("early")  # an instrumentation that has its tracer already
        set_sampling(provider, sample)
        if not hasattr(provider, "_tracers"):  # older SDKs keep no list of their tracers
            early = provider.get_tracer("late")
        provider.add_span_processor(SessionSpanProcessor())
        provider.add_span_processor(SimpleSpanProcessor(memory))
        trace.set_tracer_provider(provider)
        return SimpleNamespace(provider=provider, tracer=early, spans=memory.get_finished_spans)

    return with_sampling


def converse(conversation_id: str, *texts: str) -> None:
    with session(conversation_id, question_id="q"):
        for text in texts:
            with turn(text) as open_turn, agent("support"):
                with tool("look_up") as execution:
                    execution.arguments(order_id="A")
                    execution.result({"status": "shipped"})
                open_turn.respond("It is shipped.")


def kept_and_dropped(ratio: float) -> tuple[str, str]:
    """An id of a conversation that is recorded at a ratio, and one of another that is not."""
    sampler = ConversationSampler(ratio)
    ids: dict[bool, str] = {}
    for number in range(100):
        with session(f"c{number}"):
            result = sampler.should_sample(None, 1, "turn")
        ids.setdefault(result.decision.value == 2, f"c{number}")
    return ids[True], ids[False]


def caller(*, sampled: bool, state: TraceState | None = None) -> otel.Context:
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    context = SpanContext(7, 7, is_remote=True, trace_flags=flags, trace_state=state)
    return trace.set_span_in_context(NonRecordingSpan(context))


@pytest.mark.parametrize(
    "sampler", [TraceIdRatioBased(0.5), ParentBased(TraceIdRatioBased(0.5))], ids=["ratio", "parent based"]
)
@pytest.mark.short_form("sampler", 2)
def test_no_session_passes_that_a_ratio_sampler_may_have_cut(sampler: Sampler, tmp_path: Path) -> None:
    trace.set_tracer_provider(TracerProvider(sampler=sampler, id_generator=SeededIds()))
    provider = configure(db="shop.duckdb")
    for number in range(25):
        converse(f"c{number}", *GOLDEN["golden_questions"][0]["user_inputs"])
    provider.force_flush()
    (tmp_path / "both.json").write_text(json.dumps(GOLDEN))
    short = json.dumps(GOLDEN).replace(', "Really?"', "")
    (tmp_path / "first.json").write_text(short)
    db = spangrade.open("shop.duckdb")
    sessions = list(db.sessions())
    turns = {len(one.turns) for one in sessions}
    assert (turns, {one.sampled for one in sessions}) == ({1, 2}, {True})
    for name in ("both.json", "first.json"):
        assert db.grade(name).verdicts == {
            "passed": 0,
            "failed": 0,
            "inconclusive": len(sessions),
            "broken": 0,
            "unmatched": 0,
        }
    found = [finding for finding in db.lint() if finding.code == "sampled"]
    assert len(found) == len(sessions)
    assert {finding.advice for finding in found} == {
        "sample whole conversations, by configure(sample=RATIO), instead of traces"
    }


def test_sampled_conversations_are_recorded_whole_and_pass(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")  # the argument takes precedence
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    provider = configure(db="shop.duckdb", sample=0.4)
    for number in range(50):
        converse(f"c{number}", *GOLDEN["golden_questions"][0]["user_inputs"])
    provider.force_flush()
    (tmp_path / "golden.json").write_text(json.dumps(GOLDEN))
    db = spangrade.open("shop.duckdb")
    sessions = list(db.sessions())
    assert 10 <= len(sessions) <= 30
    assert {(len(one.turns), one.sampled, one.sample_ratio) for one in sessions} == {(2, False, 0.4)}
    run = db.grade("golden.json")
    assert str(run) == f"{len(sessions)} sessions: {len(sessions)} passed"
    assert "sampled" not in {finding.code for finding in db.lint()}


def test_the_ratio_samplers_of_the_environment_are_disclosed(monkeypatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.999999")
    provider = configure(db="shop.duckdb")
    with provider.get_tracer("t").start_as_current_span("a") as span:
        assert span.get_span_context().trace_state.to_header().startswith("ot=th:0000")


def test_every_process_chooses_the_same_conversations() -> None:
    script = (
        "from spangrade import session; from spangrade.tracer.sampling import ConversationSampler as S\n"
        "def kept(i):\n"
        "    with session(i): return S(0.3).should_sample(None, 1, 't').decision.value == 2\n"
        "print([n for n in range(40) if kept(f'c{n}')])"
    )
    outputs = {
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert outputs == {"[1, 5, 7, 11, 12, 14, 15, 20, 29, 30, 31, 37, 38]\n"}


def test_a_conversation_in_a_web_servers_trace_is_whole_whatever_the_trace_is(recorded) -> None:
    kept, dropped = kept_and_dropped(0.5)
    run = recorded(ALWAYS_ON, 0.5)
    for number in range(20):
        with run.tracer.start_as_current_span("POST /chat"):
            converse(kept if number % 2 else dropped, "Where is it?")
    spans = run.spans()
    ids = {(span.attributes or {}).get("gen_ai.conversation.id") for span in spans if span.name == "turn"}
    assert ids == {kept}
    assert len([span for span in spans if span.name == "execute_tool look_up"]) == 10
    requests = [span for span in spans if span.name == "POST /chat"]
    assert 0 < len(requests) < 20
    assert {span.context.trace_state.to_header() for span in requests} == {"ot=th:8"}
    assert {span.context.trace_state.to_header() for span in spans if span not in requests} == {
        "spangrade=conversation:0.5"
    }


def test_a_conversation_is_not_incomplete_because_its_callers_span_was_sampled(tmp_path: Path) -> None:
    provider = configure(db="shop.duckdb", sample=0.5)
    kept, _ = kept_and_dropped(0.5)
    for _ in range(60):  # each request is kept or dropped by its random trace id
        with provider.get_tracer("web").start_as_current_span("POST /chat"):
            converse(kept, "Where is it?")
    provider.force_flush()
    db = spangrade.open("shop.duckdb")
    assert db.sql("SELECT count(*) > 0 AS kept FROM spans WHERE name = 'POST /chat'").rows() == [
        {"kept": True}
    ]
    (stored,) = db.sessions()
    assert (len(stored.turns), stored.sampled, stored.sample_ratio) == (60, False, 0.5)


def test_spans_beneath_follow_their_conversation_also_with_an_id_of_their_own(recorded) -> None:
    kept, dropped = kept_and_dropped(0.5)
    run = recorded(ALWAYS_ON, 0.5)
    for outer, inner in ((kept, dropped), (dropped, kept)):
        with session(outer), turn("hi"):
            with run.tracer.start_as_current_span("raw", attributes={"gen_ai.conversation.id": inner}):
                pass
            with session(inner), agent("sub-agent"):
                pass
    assert [span.name for span in run.spans()] == ["raw", "invoke_agent sub-agent", "turn"]


def test_a_root_is_sampled_by_the_id_among_its_attributes(recorded) -> None:
    kept, dropped = kept_and_dropped(0.5)
    run = recorded(ALWAYS_ON, 0.5)
    for number in range(10):
        attributes = {"gen_ai.conversation.id": kept if number % 2 else dropped}
        root = run.tracer.start_as_current_span("invoke_agent", attributes=attributes)
        with root, run.tracer.start_as_current_span("chat"):
            pass
    assert [span.name for span in run.spans()] == ["chat", "invoke_agent"] * 5


def test_a_trace_without_an_id_is_sampled_by_its_own_and_says_so(recorded) -> None:
    run = recorded(ALWAYS_ON, 0.25)
    for _ in range(100):
        with run.tracer.start_as_current_span("root"), run.tracer.start_as_current_span("child"):
            pass
    spans = run.spans()
    assert 10 <= len(spans) / 2 <= 40
    assert [span.name for span in spans] == ["child", "root"] * (len(spans) // 2)
    assert {span.context.trace_state.to_header() for span in spans} == {"ot=th:c"}


@pytest.mark.parametrize("sampled", [True, False])
def test_a_remote_callers_decision_holds_for_spans_without_a_conversation(sampled: bool, recorded) -> None:
    run = recorded(ALWAYS_ON, 0.5)
    for state in (TraceState([("spangrade", "conversation:0.5")]), TraceState([("a", "b")])):
        run.tracer.start_span("beneath", caller(sampled=sampled, state=state)).end()
    headers = [span.context.trace_state.to_header() for span in run.spans()]
    assert headers == (["spangrade=conversation:0.5", "a=b"] if sampled else [])


@pytest.mark.parametrize("sampled", [True, False])
def test_a_session_is_whole_whatever_a_remote_caller_samples(sampled: bool, recorded) -> None:
    run = recorded(ALWAYS_ON, 1.0)
    token = otel.attach(caller(sampled=sampled, state=TraceState([("ot", "th:8;rv:12345678901234")])))
    try:
        converse("c1", "Where is it?")
    finally:
        otel.detach(token)
    assert {span.context.trace_state.to_header() for span in run.spans()} == {
        "spangrade=conversation:1,ot=rv:12345678901234"
    }
    assert len(run.spans()) == 3


@pytest.mark.parametrize(
    ("sampler", "context", "state"),
    [
        (TraceIdRatioBased(0.5), None, "ot=th:8"),
        (ParentBased(TraceIdRatioBased(0.25)), None, "ot=th:c"),
        (ParentBased(ALWAYS_ON), None, ""),
        (ParentBased(ALWAYS_ON), {"state": TraceState([("ot", "th:8"), ("a", "b")])}, "ot=th:8,a=b"),
        (TraceIdRatioBased(0.25), {"state": TraceState([("ot", "th:8;rv:1")])}, "ot=th:c;rv:1"),
        (ParentBased(ALWAYS_ON, remote_parent_sampled=TraceIdRatioBased(0.5)), {}, "ot=th:8"),
        (ParentBased(ALWAYS_ON, remote_parent_sampled=TraceIdRatioBased(0.5)), None, ""),
    ],
)
def test_the_threshold_of_a_ratio_sampler_is_in_the_tracestate(sampler, context, state) -> None:
    disclosing = DisclosingSampler(sampler)
    parent = None if context is None else caller(sampled=True, **context)
    result = disclosing.should_sample(parent, 1, "turn")  # a trace id that every ratio keeps
    assert (result.trace_state or TraceState()).to_header() == state


def test_the_threshold_is_that_of_the_sampler_which_another_one_wraps() -> None:
    if (wrapper := getattr(sampling, "AlwaysRecordSampler", None)) is None:
        pytest.skip("this SDK has no AlwaysRecordSampler")
    disclosing = DisclosingSampler(wrapper(TraceIdRatioBased(0.5)))
    assert disclosing.should_sample(None, 1, "turn").trace_state.to_header() == "ot=th:8"
    dropped = disclosing.should_sample(None, 2**64 - 1, "turn")  # recorded for processors, not exported
    assert (dropped.decision, dropped.trace_state) == (sampling.Decision.RECORD_ONLY, None)


def test_the_threshold_of_newer_samplers_stays_on_the_spans_beneath(recorded) -> None:
    experimental = pytest.importorskip("opentelemetry.sdk.trace._sampling_experimental")
    ratio = experimental.composable_traceid_ratio_based(0.5)
    sampler = experimental.composite_sampler(experimental.composable_parent_threshold(ratio))
    run = recorded(sampler, None)
    for number in range(10):
        converse(f"c{number}", "Where is it?")
    spans = run.spans()
    assert 0 < len(spans) < 30
    assert {span.context.trace_state.get("ot") for span in spans} == {"th:8"}


def test_a_turn_that_a_caller_dropped_makes_the_conversation_incomplete(tmp_path: Path) -> None:
    provider = configure(db="shop.duckdb")
    for sampled in (True, False, True):
        token = otel.attach(caller(sampled=sampled))
        try:
            converse("c1", "Where is it?")
        finally:
            otel.detach(token)
    converse("c2", "Where is it?")
    provider.force_flush()
    sessions = {one.session_id: one.sampled for one in spangrade.open("shop.duckdb").sessions()}
    assert sessions == {"c1": True, "c2": False}


def test_the_latest_conversations_with_dropped_spans_are_remembered(monkeypatch) -> None:
    monkeypatch.setattr("spangrade.tracer.sampling._MAX_REMEMBERED", 2)
    disclosing = DisclosingSampler(ParentBased(ALWAYS_ON))
    for number in range(3):
        with session(f"c{number}"):
            disclosing.should_sample(caller(sampled=False), 1, "turn")
    marked = []
    for number in range(3):
        with session(f"c{number}"):
            state = disclosing.should_sample(None, 1, "turn").trace_state or TraceState()
        marked.append(state.get("spangrade"))
    assert marked == [None, "partial", "partial"]


def test_an_applications_own_sampler_is_kept_with_a_warning(caplog) -> None:
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(0.5)))
    with caplog.at_level(logging.WARNING, "spangrade"):
        set_sampling(provider, 0.1)
        set_sampling(provider, None)  # configure() may be called again
    assert "TraceIdRatioBased{0.5}" in provider.sampler.get_description()
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "sample=0.1 is not used",
        "the sampler TraceIdRatioBased{0.5} drops traces, so that conversations lack turns and cannot pass",
    ]


@pytest.mark.parametrize("sampler", [ALWAYS_ON, DEFAULT_ON, TraceIdRatioBased(1)])
def test_a_sampler_that_records_everything_makes_way_without_a_word(sampler, caplog) -> None:
    provider = TracerProvider(sampler=sampler)
    with caplog.at_level(logging.WARNING, "spangrade"):
        set_sampling(provider, None)
        set_sampling(provider, 0.1)
        set_sampling(provider, 0.1)
    assert provider.sampler.get_description() == "ConversationSampler{0.1}"
    assert caplog.records == []


def test_a_second_ratio_is_not_used(caplog) -> None:
    provider = TracerProvider(sampler=ALWAYS_ON)
    with caplog.at_level(logging.WARNING, "spangrade"):
        set_sampling(provider, 0.1)
        set_sampling(provider, 0.2)
    assert provider.sampler.get_description() == "ConversationSampler{0.1}"
    assert caplog.messages == ["sample=0.2 is not used: the provider samples at 0.1 already"]


def test_a_provider_that_is_off_stays_off_quietly(caplog) -> None:
    with caplog.at_level(logging.WARNING, "spangrade"):
        set_sampling(provider := TracerProvider(sampler=ALWAYS_OFF), None)
    assert provider.get_tracer("t").start_span("a").is_recording() is False
    assert caplog.records == []


@pytest.mark.parametrize(("share", "turns"), [(0, 0), (1, 20)])
def test_the_ends_of_the_range_record_nothing_and_everything(share: float, turns: int, recorded) -> None:
    run = recorded(ALWAYS_ON, share)
    for number in range(20):
        converse(f"c{number}", "hi")
    assert len([span for span in run.spans() if span.name == "turn"]) == turns


@pytest.mark.parametrize("sample", [-0.1, 1.5, "half", float("nan")])
def test_a_share_outside_its_range_is_refused(sample) -> None:
    with pytest.raises(InputError, match="expected a share of the conversations, from 0 to 1"):
        configure(sample=sample)
