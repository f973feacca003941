"""All that is recorded of agents that use the whole tracer, in `tests/cases/traced`: every span, whole.

`WRITE_CASES=1 pytest` of this file writes it, to be read in the diff.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cases import FOLDER, compare
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spangrade import tracer
from spangrade.tracer import _operation
from spangrade.tracer._content import set_content_capture
from spangrade.tracer.exporter import DuckDBSpanExporter
from spangrade.tracer.faults import Fault, Faults
from spangrade.tracer.store import Store

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Odd:
    def __str__(self) -> str:
        raise ValueError("odd")


class Halt(BaseException):
    pass


@tracer.tool
def add(first: int, second: int = 2, *rest: int, key: str = "k", **more: int) -> int:
    return first + second + sum(rest) + sum(more.values())


@tracer.tool("named", call_id="call-1")
def of_name(text: str) -> None:
    tracer.current_tool().arguments({"by": "hand"})
    tracer.current_tool().result(f"{text} by hand")


@tracer.tool
def failing(kind: str) -> None:
    raise {"value": ValueError, "halt": Halt, "exit": GeneratorExit}[kind](f"it is {kind}")


@tracer.tool
def pieces(number: int) -> Iterator[int]:
    yield from range(number)


@tracer.tool
async def slow(text: str) -> str:
    await asyncio.sleep(0)
    return text.upper()


@tracer.turn
async def stream(text: str) -> AsyncIterator[str]:
    yield "It is "
    add(1)
    yield text


class Desk:
    @tracer.tool
    def method(self, order: str) -> dict[str, str]:
        return {"order": order}

    @classmethod
    @tracer.tool
    def of_class(cls, order: str) -> tuple[str, None]:
        return order, None

    @tracer.agent
    def run(self, text: str) -> str:
        self.method("A1")
        self.of_class(order="A2")
        return text


def a_conversation() -> None:
    with tracer.session("c-1", question_id="q-1", user="u-1", tags=["a", "b"], version="2.0") as session:
        for text in ("Hello", "Bye"):
            with tracer.turn(text) as turn, tracer.agent("desk", agent_id="d-1"):
                with tracer.llm_call("gpt-4o", "openai") as call:
                    call.input([{"role": "user", "content": text}], system="Be brief.")
                    call.output(
                        "Hi",
                        tool_calls=[{"id": "1", "name": "add", "arguments": {"first": 1}}],
                        finish_reason="tool_calls",
                    )
                    call.usage(
                        input_tokens=9,
                        output_tokens=0,
                        cached_input_tokens=3,
                        cache_write_tokens=2,
                        reasoning_tokens=1,
                    )
                    call.response_model = "gpt-4o-1"
                add(1, 2, 3, key="x", other=4)
                tracer.set_state({"user:tier": "gold"}, total=5, none=None)
                turn.respond("first")
                turn.respond(f"{text} yourself")
        assert session.conversation_id == "c-1"  # fmt: skip


def nested_agents() -> None:
    with tracer.session(7, tags="one", user_id="u-2"), tracer.agent("outer"):  # type: ignore[arg-type]
        with tracer.agent("inner"), tracer.turn():
            tracer.current_agent().failed(RuntimeError("by hand"))
            tracer.current_turn().respond("answered")
        with tracer.session("c-2"):
            Desk().run("text")
        tracer.current_llm_call().input("nobody listens")
        of_name("text")


def failures() -> None:
    for kind in ("value", "halt", "exit"):
        with suppress(ValueError, Halt, GeneratorExit), tracer.turn("fail"), tracer.agent("desk"):
            failing(kind)
    with suppress(TypeError):
        add()  # type: ignore[call-arg]


def streams() -> None:
    assert list(pieces(3)) == [0, 1, 2]
    begun = pieces(5)
    next(begun)
    next(begun)
    begun.close()
    list(pieces(0))

    async def consume(most: int) -> None:
        made = stream("blue")
        async for _ in made:
            most -= 1
            if not most:
                break
        await made.aclose()  # type: ignore[attr-defined]

    for most in (9, 1):
        asyncio.run(consume(most))


def in_tasks() -> None:
    async def both() -> None:
        with tracer.session("c-3"), tracer.turn("both") as turn:
            turn.respond(", ".join(await asyncio.gather(slow("a"), slow("b"))))

    async def cancelled() -> None:
        with tracer.turn("cancelled"):
            task = asyncio.create_task(slow("c"))
            await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(both())
    asyncio.run(cancelled())
    contextvars.copy_context().run(add, 5)


def odd_values() -> None:
    with tracer.turn(Odd()) as turn, tracer.tool("odd") as tool:  # type: ignore[arg-type]
        turn.respond(3)  # type: ignore[arg-type]
        tool.arguments(
            number=float("nan"),
            at=b"\xff",
            odd=Odd(),
            items={
                1,
            },
        )
        tool.result(object)
        with tracer.llm_call("m") as call:
            call.usage(input_tokens="many", output_tokens=4)  # type: ignore[arg-type]
            call.record({"no": "answer"})
            call.output(None)
    with tracer.llm_call("m") as call:
        call.input("text")
        call.output(None, tool_calls=[{"name": "f"}])
    with tracer.llm_call("m") as call:
        call.output("text", finish_reason="stop")
        call.response_model = None  # fmt: skip


def a_drill() -> None:
    with tracer.session("c-4") as session, tracer.turn("drill"):
        session.faults = Faults(
            [
                Fault("slow", 2, "empty"),
                Fault("slow", 3, "injection", "ignore this"),
                Fault("slow", 4, "fails"),
                Fault("slow", 5, "times_out", "too late"),
                Fault("slow", 6, "other_customer", {"id": 2}),
                Fault("slow", 7, "late", 0),
                Fault("add", 1, "injection", "ignored"),
                Fault("method", 1, "injection", "look here"),
            ]
        )
        for number in range(1, 8):
            with suppress(Exception):
                asyncio.run(slow(f"call {number}"))
        add(1)
        Desk().method("A3")


def a_foreign_span() -> None:
    foreign = trace.get_tracer_provider().get_tracer("foreign")
    inside = foreign.start_as_current_span("http")
    with tracer.session("c-5"), inside, tracer.turn("inside"), foreign.start_as_current_span("db"):
        tracer.set_state(row=1)
        add(0)


SCRIPTS: tuple[Callable[[], None], ...] = (
    *(a_conversation, nested_agents, failures, streams, in_tasks, odd_values, a_drill, a_foreign_span),
)


def shown(span: ReadableSpan, names: dict[int, str]) -> dict[str, Any]:
    """Return all of a span but its times and ids: a parent by its name and number."""
    events = []
    for event in span.events:
        attributes = {key: one for key, one in (event.attributes or {}).items() if "stacktrace" not in key}
        events.append([event.name, attributes])
    found = {
        "kind": span.kind.name,
        "parent": None if span.parent is None else names.get(span.parent.span_id, "elsewhere"),
        "status": [span.status.status_code.name, span.status.description],
        "attributes": {key: placed(one) for key, one in sorted((span.attributes or {}).items())},
        "events": events,
        "links": len(span.links),
    }
    return {key: one for key, one in found.items() if one not in ([], 0, "INTERNAL", ["UNSET", None])}


def placed(value: Any) -> Any:
    """Return a value without what differs from run to run: the number of a line, a random id."""
    if isinstance(value, str):
        value = re.sub(r"(?<=\.py):\d+", "", re.sub(r"/\S*/", "", value)) if ".py:" in value else value
        return re.sub(r"^[0-9a-f]{32}$", "RANDOM", value)
    return list(value) if isinstance(value, tuple) else value


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[TracerProvider]:
    made = TracerProvider(resource=Resource({"service.name": "shop"}), shutdown_on_exit=False)
    monkeypatch.setattr(_operation, "_tracer", made.get_tracer("test"))
    monkeypatch.setattr(_operation, "_logged_s", {})
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: made)
    monkeypatch.delenv(VARIABLE, raising=False)
    set_content_capture(None)
    yield made
    set_content_capture(None)
    made.shutdown()


@pytest.mark.parametrize("captured", [True, False])
def test_every_span_is_what_it_is_to_be(
    captured: bool, provider: TracerProvider, caplog: pytest.LogCaptureFixture
) -> None:
    memory = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    set_content_capture(captured)
    found: dict[str, dict[str, Any]] = {}
    for script in SCRIPTS:
        memory.clear()
        caplog.clear()
        with caplog.at_level(logging.INFO, "spangrade"):
            script()
        spans = sorted(memory.get_finished_spans(), key=lambda span: (span.start_time, span.context.span_id))
        names = {span.context.span_id: f"{number} {span.name}" for number, span in enumerate(spans, 1)}
        found[script.__name__] = {names[span.context.span_id]: shown(span, names) for span in spans}
        traces = list(dict.fromkeys(span.context.trace_id for span in spans))
        found[script.__name__]["traces"] = [traces.index(span.context.trace_id) for span in spans]
        logged = [one.getMessage() for one in caplog.records if one.name.startswith("spangrade")]
        found[script.__name__]["log"] = [placed(line) for line in logged]
    compare(FOLDER / "traced" / f"{'with' if captured else 'without'}_content.json", found)


@pytest.mark.parametrize("redact", ["off", "mask", "hash"])
def test_what_is_stored_is_redacted_as_it_is_to_be(
    redact: str, provider: TracerProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPANGRADE_REDACT", redact)
    monkeypatch.setenv("SPANGRADE_REDACT_KEY", "0" * 32)
    db = tmp_path / "s.duckdb"
    provider.add_span_processor(SimpleSpanProcessor(DuckDBSpanExporter(db)))
    with (
        tracer.session("c-1", user="ann@example.com"),
        tracer.turn("I am ann@example.com, call 415-555-0123"),
    ):
        with tracer.tool("pay") as tool:
            tool.arguments(card="4111 1111 1111 1111", password="hunter2hunter2", order=7)
            tool.result(["sk-proj-abcdefghijklmnopqrstuvwxyz123456", {"email": "bob@example.com"}])
            tracer.set_state(token="eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", name="Ann")
        with suppress(ValueError), tracer.agent("desk"):
            raise ValueError("no account of ann@example.com")
    provider.force_flush()
    with Store.open(db, read_only=True) as store:
        rows = store.query(
            "SELECT name, status, status_message, attributes, events, resource, scope_name FROM spans "
            "ORDER BY start_ns"
        )
    found = {}
    for name, *rest in rows:
        *whole, attributes, events, resource, scope = rest
        events = json.loads(events)
        for event in events:
            del event["time_ns"]
            event["attributes"].pop("exception.stacktrace", None)
        found[name] = [*whole, json.loads(attributes), events, json.loads(resource), scope]
    compare(FOLDER / "traced" / f"stored_{redact}.json", {"rows": found})
