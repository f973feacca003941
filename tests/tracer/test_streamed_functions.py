"""Decorated generators, coroutines and iterators, which are consumed outside of the session of their call."""

import asyncio
import copy
import gc
import inspect
import logging
import pickle
import subprocess
import sys
import threading

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spangrade import tracer


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
def turns(memory, caplog):
    """The finished turns, as (conversation id, answer, cut off); nothing may have been logged."""
    memory.clear()
    caplog.set_level(logging.DEBUG)

    def finished():
        turns = [span.attributes for span in memory.get_finished_spans() if span.name == "turn"]
        keys = "gen_ai.conversation.id", "spangrade.turn.output", "spangrade.cut_off"
        return [tuple(attributes.get(key) for key in keys) for attributes in turns]

    yield finished
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert [record.message for record in caplog.records if record.name != "asyncio"] == []


class Pieces:
    """An iterator of a class of its own, as model clients return."""

    def __init__(self, *pieces):
        self.left = list(pieces)
        self.id = "stream-1"

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        return self.left.pop(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.left.clear()


class AsyncPieces(Pieces):
    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop(0)


def generator(text):
    yield "a"
    yield "b"


async def async_generator(text):
    yield "a"
    await asyncio.sleep(0)
    yield "b"


async def coroutine(text):
    await asyncio.sleep(0)
    return "ab"


async def coroutine_of_a_stream(text):
    return AsyncPieces("a", "b")


def returns_a_coroutine(text):
    return coroutine(text)


def returns_a_generator(text):
    return generator(text)


def returns_an_async_generator(text):
    return async_generator(text)


def returns_an_iterator(text):
    return Pieces("a", "b")


def returns_an_async_iterator(text):
    return AsyncPieces("a", "b")


KINDS = [
    generator,
    async_generator,
    coroutine,
    coroutine_of_a_stream,
    returns_a_coroutine,
    returns_a_generator,
    returns_an_async_generator,
    returns_an_iterator,
    returns_an_async_iterator,
]
STREAMS = [kind for kind in KINDS if "coroutine" not in kind.__name__]


async def consumed(value):
    if inspect.isawaitable(value):
        value = await value
    if hasattr(value, "__anext__"):
        return "".join([piece async for piece in value])
    return value if isinstance(value, str) else "".join(value)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_consumed_after_its_session_belongs_to_the_session_of_its_call(kind, turns, memory):
    answer = tracer.turn(kind)
    with tracer.session("c-1"):
        made = answer("question")
    with tracer.session("another"):
        assert await consumed(made) == "ab"
    assert turns() == [("c-1", "ab", None)]
    [turn] = memory.get_finished_spans()
    assert turn.attributes["spangrade.turn.input"] == "question"


async def test_what_runs_in_a_stream_is_a_part_of_the_turn_and_of_its_session(turns, memory):
    @tracer.turn
    async def answer(text):
        with tracer.tool("look"):
            yield "a"

    with trace.get_tracer("server").start_as_current_span("request") as request, tracer.session("c-1"):
        stream = answer("q")
    assert await consumed(stream) == "a"
    ended = {span.name: span for span in memory.get_finished_spans()}
    assert ended["turn"].parent.span_id == request.get_span_context().span_id
    assert ended["execute_tool look"].parent.span_id == ended["turn"].context.span_id
    assert ended["execute_tool look"].attributes["gen_ai.conversation.id"] == "c-1"


async def first_of(stream):
    return await anext(stream) if hasattr(stream, "__anext__") else next(stream)


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.short_form("kind", 6)
async def test_a_stream_that_nobody_takes_the_rest_of_is_recorded_up_to_there_and_as_cut_off(kind, turns):
    with tracer.session("c-1"):
        stream = tracer.turn(kind)("q")
    assert await first_of(stream) == "a"
    assert turns() == []
    del stream
    gc.collect()
    await asyncio.sleep(0)  # the event loop closes an async generator
    assert turns() == [("c-1", "a", True)]


@pytest.mark.parametrize("kind", [generator, async_generator])
async def test_a_closed_stream_is_recorded_up_to_there_and_as_cut_off(kind, turns):
    stream = tracer.turn(kind)("q")
    await first_of(stream)
    await stream.aclose() if kind is async_generator else stream.close()
    assert turns() == [(None, "a", True)]


async def test_a_cancelled_stream_is_recorded_up_to_there_and_as_cut_off(turns):
    waits = asyncio.Event()

    @tracer.turn
    async def answer(text):
        yield "a"
        waits.set()
        await asyncio.Event().wait()
        yield "b"

    with tracer.session("c-1"):
        stream = answer("q")
    task = asyncio.create_task(consumed(stream))
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert turns() == [("c-1", "a", True)]


def test_a_stream_that_waits_when_its_event_loop_ends_leaves_no_traceback(turns):
    @tracer.turn
    async def answer(text):
        with tracer.tool("look"):
            yield "a"
            await asyncio.Event().wait()

    async def abandon():
        stream = answer("q")
        await anext(stream)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        assert not waiting.done()

    asyncio.run(abandon())
    assert turns() == [(None, "a", True)]


def test_a_stream_that_was_never_begun_has_no_turn(turns):
    stream = tracer.turn(generator)("q")
    del stream
    gc.collect()
    assert turns() == []


def test_a_returned_iterator_is_still_what_it_was(turns):
    stream = tracer.turn(returns_an_iterator)("q")
    assert isinstance(stream, Pieces)
    assert stream.id == "stream-1"
    with stream as entered:
        assert next(entered) == "a"
    assert turns() == [(None, "a", True)]


def test_other_iterators_are_returned_as_they_are(turns, tmp_path):
    (tmp_path / "answer.txt").write_text("text")
    with (tmp_path / "answer.txt").open() as file:
        assert tracer.turn(lambda text: file)("q") is file
    items = map(str, [1, 2])
    assert tracer.turn(lambda text: items)("q") is items
    assert turns() == [(None, None, None)] * 2


@tracer.turn
async def decorated(text):
    yield text


class Support:
    @tracer.turn
    async def answer(self, text):
        return text


def test_a_decorated_function_is_one_of_its_kind():
    kinds = inspect.isgeneratorfunction, inspect.isasyncgenfunction, inspect.iscoroutinefunction
    for function in (generator, async_generator, coroutine, returns_a_generator, Support().answer):
        as_before = [is_kind(function) for is_kind in (*kinds, inspect.isroutine)]
        wrapped = function if inspect.ismethod(function) else tracer.turn(function)
        assert [is_kind(wrapped) for is_kind in (*kinds, inspect.isroutine)] == as_before
        assert inspect.signature(wrapped) == inspect.signature(function)
        assert wrapped.__name__ == function.__name__
    assert [is_kind(Support().answer) for is_kind in kinds] == [False, False, True]
    assert asyncio.run(Support().answer("me")) == "me"
    assert decorated("q").__name__ == "decorated"
    assert pickle.loads(pickle.dumps(decorated)) is decorated  # noqa: S301 (its own)
    assert copy.deepcopy(decorated) is decorated


async def test_steps_of_a_generator_in_several_threads_are_one_turn(turns):
    with tracer.session("c-1"):
        stream = tracer.turn(generator)("q")
    pieces = []
    for _ in range(2):  # as Starlette iterates a generator that is not async
        thread = threading.Thread(target=lambda: pieces.append(next(stream)))
        thread.start()
        thread.join()
    assert (pieces, list(stream), turns()) == (["a", "b"], [], [("c-1", "ab", None)])


SCRIPT = """
import sys
from spangrade import tool

def plain(order_id):
    return order_id

def frames(function):
    calls = []
    sys.setprofile(lambda frame, event, argument: calls.append(event) if event == "call" else None)
    function("A-1")
    sys.setprofile(None)
    return len(calls)

print(frames(tool(plain)) - frames(plain))
"""


def test_without_a_provider_a_call_costs_three_calls_more():
    """The time is measured by tests/benchmarks/decorators.py; the number of calls does not vary."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 3
