"""Wrapping: what the spans say, and what the wrapped code does not notice."""

import asyncio
import contextvars
import json
import logging
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spangrade import tracer
from spangrade.tracer._content import set_content_capture

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@pytest.fixture(scope="module")
def memory():
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield exporter
    exporter.shutdown()


@pytest.fixture
def spans(memory, monkeypatch):
    """Finished spans by name, in the order they ended."""
    monkeypatch.delenv(VARIABLE, raising=False)
    set_content_capture(None)
    memory.clear()

    def finished():
        return {span.name: span for span in memory.get_finished_spans()}

    finished.all = memory.get_finished_spans
    yield finished
    assert trace.get_current_span() is trace.INVALID_SPAN


def said(span):
    """A span's attributes, those that are JSON text parsed."""
    parsed = {}
    for key, value in span.attributes.items():
        is_json = key.endswith((".arguments", ".result", ".messages", "instructions", ".state"))
        parsed[key] = json.loads(value) if is_json else value
    return parsed


def parent_of(span, spans):
    return next(
        (other.name for other in spans if span.parent and other.context.span_id == span.parent.span_id), None
    )


def test_a_conversation_is_named_and_attributed_by_the_conventions(spans):
    with tracer.session("c-1", question_id="q-1", user_id="u-1"), tracer.turn("Where is order 7?") as turn:
        with tracer.agent("support"):
            with tracer.llm_call("gemini-2.5-flash", "gcp.gemini") as llm:
                llm.input("Where is order 7?", system="Be brief.")
                llm.output(tool_calls=[{"id": "1", "name": "look_up", "arguments": {"order": 7}}])
                llm.usage(input_tokens=9, output_tokens=4, cached_input_tokens=2, reasoning_tokens=1)
                llm.response_model = "gemini-2.5-flash-001"
            with tracer.tool("look_up", call_id="1") as tool:
                tool.arguments(order=7)
                tool.result({"status": "shipped"})
                tracer.set_state(order=7)
        turn.respond("It has shipped.")

    ended = spans()
    assert [(span.name, span.kind.name, parent_of(span, ended.values())) for span in ended.values()] == [
        ("chat gemini-2.5-flash", "CLIENT", "invoke_agent support"),
        ("execute_tool look_up", "INTERNAL", "invoke_agent support"),
        ("invoke_agent support", "INTERNAL", "turn"),
        ("turn", "INTERNAL", None),
    ]
    assert [said(span) for span in ended.values()] == [
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "gemini-2.5-flash",
            "gen_ai.response.model": "gemini-2.5-flash-001",
            "gen_ai.provider.name": "gcp.gemini",
            "gen_ai.conversation.id": "c-1",
            "gen_ai.system_instructions": [{"type": "text", "content": "Be brief."}],
            "gen_ai.input.messages": [
                {"role": "user", "parts": [{"type": "text", "content": "Where is order 7?"}]}
            ],
            "gen_ai.output.messages": [
                {
                    "role": "assistant",
                    "parts": [{"type": "tool_call", "id": "1", "name": "look_up", "arguments": {"order": 7}}],
                }
            ],
            "gen_ai.usage.input_tokens": 9,
            "gen_ai.usage.output_tokens": 4,
            "gen_ai.usage.cache_read.input_tokens": 2,
            "gen_ai.usage.reasoning.output_tokens": 1,
        },
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "look_up",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": "1",
            "gen_ai.tool.call.arguments": {"order": 7},
            "gen_ai.tool.call.result": {"status": "shipped"},
            "gen_ai.conversation.id": "c-1",
        },
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "support",
            "gen_ai.conversation.id": "c-1",
        },
        {
            "spangrade.turn": True,
            "spangrade.turn.input": "Where is order 7?",
            "spangrade.turn.output": "It has shipped.",
            "spangrade.question_id": "q-1",
            "user.id": "u-1",
            "gen_ai.conversation.id": "c-1",
        },
    ]


def test_each_turn_is_a_trace_of_its_own_unless_a_span_is_open(spans):
    with tracer.session("c"):
        with tracer.turn("one"):
            pass
        with tracer.turn("two"):
            pass
        with trace.get_tracer("app").start_as_current_span("request"), tracer.turn("three"):
            pass
    one, two, three, request = spans.all()
    assert one.parent is None
    assert two.parent is None
    assert one.context.trace_id != two.context.trace_id
    assert three.parent.span_id == request.context.span_id


def test_an_id_that_is_no_text_is_recorded_as_text(spans):
    with tracer.session(uuid.UUID(int=7), question_id=3), tracer.agent("a"):
        pass
    attributes = spans()["invoke_agent a"].attributes
    assert (attributes["gen_ai.conversation.id"], attributes["spangrade.question_id"]) == (
        "00000000-0000-0000-0000-000000000007",
        "3",
    )


def test_a_session_without_an_id_gets_one(spans):
    with tracer.session() as first, tracer.agent("a"):
        pass
    with tracer.session() as second:
        pass
    assert spans()["invoke_agent a"].attributes["gen_ai.conversation.id"] == first.conversation_id
    assert first.conversation_id != second.conversation_id


def test_a_session_has_a_user_tags_and_a_version(spans):
    named = tracer.session("c", user="u-1", tags=["beta", 7], version="1.2.0")
    with named, tracer.turn("q"), tracer.agent("a"):
        pass
    every = {"gen_ai.conversation.id": "c", "gen_ai.agent.version": "1.2.0"}
    assert said(spans()["invoke_agent a"]) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "a",
        **every,
    }
    assert said(spans()["turn"]) == {
        "spangrade.turn": True,
        "spangrade.turn.input": "q",
        "user.id": "u-1",
        "spangrade.tags": ("beta", "7"),
        **every,
    }


def test_one_tag_may_be_a_text(spans):
    with tracer.session("c", tags="beta"), tracer.turn("q"):
        pass
    assert spans()["turn"].attributes["spangrade.tags"] == ("beta",)


def test_a_model_message_with_content_is_given_parts_and_others_stay(spans):
    with tracer.llm_call("m") as llm:
        llm.input(
            [
                {"role": "system", "content": "Hi"},
                {"role": "tool", "parts": []},
                {"role": "user", "content": None},
            ]
        )
        llm.output("Done", tool_calls=[{"name": "t", "arguments": {}}], finish_reason="stop")
    assert said(spans()["chat m"])["gen_ai.input.messages"] == [
        {"role": "system", "parts": [{"type": "text", "content": "Hi"}]},
        {"role": "tool", "parts": []},
        {"role": "user", "content": None},
    ]
    assert said(spans()["chat m"])["gen_ai.output.messages"] == [
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": "Done"},
                {"type": "tool_call", "name": "t", "arguments": {}},
            ],
            "finish_reason": "stop",
        }
    ]
    assert spans()["chat m"].attributes["gen_ai.response.finish_reasons"] == ("stop",)


def test_a_decorated_tool_records_what_it_was_given_and_returned(spans):
    class Shop:
        @tracer.tool("find")
        def find(self, sku, *sizes, limit=10, **filters):
            """Finds."""
            return [sku, limit]

    assert Shop().find("s", 1, 2, colour="red") == ["s", 10]
    assert Shop.find.__doc__ == "Finds."
    assert said(spans()["execute_tool find"])["gen_ai.tool.call.arguments"] == {
        "sku": "s",
        "sizes": [1, 2],
        "colour": "red",
    }
    assert said(spans()["execute_tool find"])["gen_ai.tool.call.result"] == ["s", 10]


async def test_a_bare_decorator_takes_the_functions_name_and_awaits_coroutines(spans):
    @tracer.agent
    async def support(text):
        return await find(text)

    @tracer.tool
    async def find(sku):
        await asyncio.sleep(0)
        return {"sku": sku}

    @tracer.turn
    async def answer(request_id, text):
        return str(await support(text))

    assert await answer(1, "s") == "{'sku': 's'}"
    ended = spans()
    assert [(name, parent_of(span, ended.values())) for name, span in ended.items()] == [
        ("execute_tool find", "invoke_agent support"),
        ("invoke_agent support", "turn"),
        ("turn", None),
    ]
    assert said(ended["turn"]) == {
        "spangrade.turn": True,
        "spangrade.turn.input": "s",
        "spangrade.turn.output": "{'sku': 's'}",
    }


def test_a_call_with_wrong_arguments_fails_as_it_would_without_us(spans):
    @tracer.tool("find")
    def find(sku):
        return sku

    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        find(colour="red")
    assert spans()["execute_tool find"].attributes["error.type"] == "TypeError"


def test_what_is_recorded_by_hand_wins_over_what_is_returned(spans):
    @tracer.turn
    def answer(text):
        tracer.current_turn().respond("by hand")
        find()
        return "returned"

    @tracer.tool("find")
    def find():
        tracer.current_tool().result("by hand")
        return "returned"

    answer("hi")
    assert said(spans()["turn"])["spangrade.turn.output"] == "by hand"
    assert said(spans()["execute_tool find"])["gen_ai.tool.call.result"] == "by hand"


def test_the_current_operations_are_the_innermost_and_outside_they_record_nothing(spans):
    with tracer.turn("hi") as turn, tracer.agent("outer"), tracer.agent("inner") as agent:
        with tracer.llm_call("m") as llm:
            assert tracer.current_llm_call() is llm
        with tracer.tool("t") as tool:
            assert (tracer.current_turn(), tracer.current_agent(), tracer.current_tool()) == (
                turn,
                agent,
                tool,
            )
    tracer.current_turn().respond("lost")
    tracer.current_tool().result("lost")
    tracer.current_llm_call().usage(input_tokens=1)
    tracer.set_state(lost=1)
    assert "spangrade.turn.output" not in spans()["turn"].attributes


def test_an_exception_is_recorded_once_a_span_and_goes_on(spans):
    class RefusedError(Exception):
        pass

    @tracer.tool("pay")
    def pay():
        raise RefusedError("no funds")

    with pytest.raises(RefusedError, match="no funds"), tracer.agent("a"):
        pay()
    assert [
        (
            span.status.status_code.name,
            span.status.description,
            span.attributes["error.type"],
            len(span.events),
        )
        for span in spans().values()
    ] == [("ERROR", "RefusedError: no funds", f"{__name__}.{RefusedError.__qualname__}", 1)] * 2
    event = spans()["execute_tool pay"].events[0]
    assert (event.name, event.attributes["exception.message"]) == ("exception", "no funds")
    assert "gen_ai.tool.call.result" not in spans()["execute_tool pay"].attributes


async def test_a_cancelled_call_is_no_error(spans):
    @tracer.tool("wait")
    async def wait():
        await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    span = spans()["execute_tool wait"]
    assert span.status.status_code.name == "UNSET"
    (event,) = span.events
    assert event.attributes["exception.type"].endswith("CancelledError")


def test_a_generator_runs_inside_its_span_and_its_consumer_outside(spans):
    @tracer.turn
    def answer(text):
        with tracer.tool("look") as tool:
            for piece in "a", "b":
                assert tracer.current_tool() is tool
                yield piece
        with tracer.tool("after"):
            pass
        return 3

    @tracer.turn("outer")
    def consume():
        received = []
        generator = answer("question")
        for piece in generator:
            received.append(piece)
            with tracer.tool(f"consumer {piece}"):
                pass
        return "".join(received)

    consume()
    ended = spans()
    inner = next(span for span in spans.all() if span.attributes.get("spangrade.turn.input") == "question")
    assert parent_of(ended["execute_tool consumer b"], [inner]) is None
    assert parent_of(ended["execute_tool look"], [inner]) == "turn"
    assert parent_of(ended["execute_tool after"], [inner]) == "turn"
    assert inner.attributes["spangrade.turn.output"] == "ab"


def test_a_generator_is_sent_to_thrown_into_and_returns(spans):
    @tracer.tool("talk")
    def talk():
        heard = []
        while len(heard) < 3:
            try:
                heard.append((yield len(heard)))
            except KeyError as error:
                heard.append(error.args[0])
        return heard

    generator = talk()
    assert next(generator) == 0
    assert generator.send("sent") == 1
    assert generator.throw(KeyError("thrown")) == 2
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == ["sent", "thrown", None]
    assert said(spans()["execute_tool talk"])["gen_ai.tool.call.result"] == ["sent", "thrown", None]


def test_a_generator_closed_early_ends_its_span_without_an_error(spans):
    cleaned = []

    @tracer.turn
    def answer(text):
        try:
            yield "a"
            yield "b"
        finally:
            cleaned.append(trace.get_current_span().attributes["spangrade.turn"])

    generator = answer("q")
    next(generator)
    generator.close()
    assert cleaned == [True]
    assert spans()["turn"].status.status_code.name == "UNSET"
    assert spans()["turn"].attributes["spangrade.turn.output"] == "a"


def test_an_exception_inside_a_generator_is_recorded(spans):
    @tracer.tool("stream")
    def stream():
        yield 1
        raise ValueError("broken pipe")

    with pytest.raises(ValueError, match="broken pipe"):
        list(stream())
    assert spans()["execute_tool stream"].attributes["error.type"] == "ValueError"
    assert len(spans()["execute_tool stream"].events) == 1


async def test_an_async_generator_may_be_driven_and_closed_by_other_tasks(spans, caplog):
    @tracer.turn
    async def answer(text):
        with tracer.tool("look"):
            yield "a"
            await asyncio.sleep(0)
            yield "b"
        with tracer.tool("after"):
            yield "c"
        yield "never"

    async def step(generator):
        piece = await anext(generator)
        assert trace.get_current_span() is trace.INVALID_SPAN
        return piece

    with caplog.at_level(logging.DEBUG):
        generator = answer("q")
        pieces = [await asyncio.create_task(step(generator)) for _ in range(3)]
        await asyncio.create_task(generator.aclose())
    ended = spans()
    assert pieces == ["a", "b", "c"]
    assert [(name, parent_of(span, ended.values())) for name, span in ended.items()] == [
        ("execute_tool look", "turn"),
        ("execute_tool after", "turn"),
        ("turn", None),
    ]
    assert ended["turn"].attributes["spangrade.turn.output"] == "abc"
    # Generators of earlier tests may be collected meanwhile, whose spans their processor ignores and logs.
    assert [one.message for one in caplog.records if not one.name.startswith("opentelemetry.sdk")] == []


async def test_an_async_generator_is_sent_to_and_thrown_into(spans):
    @tracer.tool("talk")
    async def talk():
        try:
            heard = yield "ready"
            yield heard
        except KeyError:
            yield "caught"

    generator = talk()
    assert [await anext(generator), await generator.asend("sent"), await generator.athrow(KeyError())] == [
        "ready",
        "sent",
        "caught",
    ]
    with pytest.raises(StopAsyncIteration):
        await anext(generator)
    assert said(spans()["execute_tool talk"])["gen_ai.tool.call.result"] == ["ready", "sent", "caught"]


async def test_the_session_flows_into_tasks_and_into_threads_with_a_copied_context(spans):
    @tracer.tool("look")
    def look(n):
        return n

    async def task(n):
        return look(n)

    with tracer.session("c"), tracer.turn("q") as turn:
        await asyncio.gather(task(1), asyncio.to_thread(look, 2))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(contextvars.copy_context().run, look, 3).result()
    spans_of_tools = [span for span in spans.all() if span.name == "execute_tool look"]
    assert [
        (said(span)["gen_ai.tool.call.result"], said(span)["gen_ai.conversation.id"], span.parent)
        for span in sorted(spans_of_tools, key=lambda span: said(span)["gen_ai.tool.call.result"])
    ] == [(n, "c", turn.span.get_span_context()) for n in (1, 2, 3)]


def test_a_context_that_something_inside_left_current_is_left_behind(spans):
    with tracer.turn("q"):
        tracer.agent("never closed").__enter__()
    assert trace.get_current_span() is trace.INVALID_SPAN


def writes_of(span):
    """The state variables that a span's events set, in order."""
    return [json.loads(event.attributes["spangrade.state"]) for event in span.events]


def test_each_write_of_state_is_an_event_of_the_current_span(spans):
    with tracer.turn("q"):
        tracer.set_state(intent="unknown", lang="en")
        with tracer.tool("classify"):
            tracer.set_state({"intent": "refund", "user:tier": "gold"})
        tracer.set_state(done=True)
    assert writes_of(spans()["execute_tool classify"]) == [{"intent": "refund", "user:tier": "gold"}]
    assert writes_of(spans()["turn"]) == [{"intent": "unknown", "lang": "en"}, {"done": True}]


def test_state_is_kept_on_a_frameworks_span_where_none_of_ours_is_open(spans):
    with trace.get_tracer("framework").start_as_current_span("execute_tool theirs"):
        tracer.set_state(a=1)
    assert writes_of(spans()["execute_tool theirs"]) == [{"a": 1}]


CONTENT = {
    "spangrade.turn.input",
    "spangrade.turn.output",
    "spangrade.state",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
}


@pytest.mark.parametrize(
    ("setting", "captured"),
    [
        (None, True),
        ("", True),
        ("true", True),
        ("TRUE", True),
        ("SPAN_AND_EVENT", True),
        ("span_only", True),
        ("false", False),
        ("NO_CONTENT", False),
        ("event_only", False),
        ("nonsense", False),
    ],
)
def test_content_follows_the_variable_and_is_captured_without_it(spans, monkeypatch, setting, captured):
    if setting is not None:
        monkeypatch.setenv(VARIABLE, setting)

    @tracer.turn
    def answer(text):
        with tracer.llm_call("m") as llm:
            llm.input(text, system="s")
            llm.output("o")
        tracer.set_state(a=1)
        return look(1)

    @tracer.tool("look")
    def look(n):
        return "found"

    answer("hi")
    recorded = {key for span in spans().values() for said in (span, *span.events) for key in said.attributes}
    assert recorded & CONTENT == (CONTENT if captured else set())


def test_an_unknown_capture_setting_is_warned_of_once(spans, monkeypatch, caplog):
    monkeypatch.setenv(VARIABLE, "sure")
    for _ in range(2):
        with tracer.turn("q"):
            pass
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [f"{VARIABLE} is 'sure'"]


class Hostile:
    def __str__(self):
        raise RuntimeError("no text")

    def __bool__(self):
        raise RuntimeError("no truth")

    def __eq__(self, other):
        raise RuntimeError("no equality")

    __hash__ = None


class Proxy:
    """As web frameworks have them: outside a request, it refuses even to say what it is."""

    @property
    def __class__(self):
        raise RuntimeError("outside a request")


def test_odd_values_never_reach_the_agent_as_exceptions(spans):
    cycle = {}
    cycle["self"] = cycle
    for value in (
        Hostile(),
        Proxy(),
        cycle,
        float("nan"),
        {1, 2},
        {(1, 2): Hostile()},
        "\ud800",
        10**40,
        None,
    ):

        @tracer.tool("odd")
        def odd(given):
            tracer.set_state(given=given)
            return given

        assert odd(value) is value
        with (
            tracer.session(value, user_id=value),
            tracer.turn(value) as turn,
            tracer.tool(value) as tool,
            tracer.llm_call(value, value) as llm,
        ):
            turn.respond(value)
            tool.arguments(value)
            llm.input(value)
            llm.output(value, tool_calls=value, finish_reason=value)
            llm.usage(input_tokens=value)
            llm.response_model = value
