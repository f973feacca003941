"""Streamed answers of the real clients, over loopback: their chunks are recorded like a whole response."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spangrade import llm_call
from spangrade.tracer import _operation

MESSAGES = [{"role": "user", "content": "Where is order 7?"}]


def openai_chunk(delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
    common = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-4.1-2025-04-14",
    }
    return {**common, "choices": choices, **more}


def openai_call(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    return {
        "tool_calls": [
            {"index": index, "function": {"arguments": arguments, **more.pop("named", {})}, **more}
        ]
    }


OPENAI_CHAT = [
    openai_chunk({"role": "assistant", "content": "Let me "}),
    openai_chunk({"content": "look."}),
    openai_chunk(openai_call(0, "", id="call_1", type="function", named={"name": "look_up"})),
    openai_chunk(openai_call(0, '{"ord')),
    openai_chunk(openai_call(0, 'er":7}')),
    openai_chunk(openai_call(1, "{}", id="call_2", type="function", named={"name": "ping"})),
    openai_chunk({}, "tool_calls"),
    openai_chunk({}, choices=[], usage={"prompt_tokens": 90, "completion_tokens": 20, "total_tokens": 110}),
]
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "gpt-5-2025-08-07",
    "status": "in_progress",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [],
}
TEXT_ITEM = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}],
}
CALL_ITEM = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "look_up",
    "arguments": '{"order":7}',
}
OPENAI_RESPONSES = [
    {"type": "response.created", "sequence_number": 0, "response": RESPONSE},
    {
        "type": "response.completed",
        "sequence_number": 1,
        "response": {
            **RESPONSE,
            "status": "completed",
            "output": [TEXT_ITEM, CALL_ITEM],
            "usage": {
                "input_tokens": 90,
                "input_tokens_details": {"cached_tokens": 64},
                "output_tokens": 20,
                "output_tokens_details": {"reasoning_tokens": 12},
                "total_tokens": 110,
            },
        },
    },
]
ANTHROPIC = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5-20250929",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": 18,
                "cache_read_input_tokens": 64,
                "cache_creation_input_tokens": 8,
                "output_tokens": 1,
            },
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Let me "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "look."}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {}},
    },
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ""}},
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": '{"ord'},
    },
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": 'er":7}'},
    },
    {"type": "content_block_stop", "index": 1},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 20},
    },
    {"type": "message_stop"},
]
GEMINI = [
    {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Wait", "thought": True}]}}],
        "responseId": "r-1",
    },
    {"candidates": [{"content": {"role": "model", "parts": [{"text": ".", "thought": True}]}}]},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "Let me "}]}}]},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "look."}]}}]},
    {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [{"functionCall": {"id": "1", "name": "look_up", "args": {"order": 7}}}],
                },
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {"promptTokenCount": 90, "candidatesTokenCount": 8, "thoughtsTokenCount": 12},
        "modelVersion": "gemini-2.5-flash-001",
    },
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The providers' streaming endpoints on loopback: the base URL."""
    streams = {
        "/v1/chat/completions": OPENAI_CHAT,
        "/v1/responses": OPENAI_RESPONSES,
        "/v1/messages": ANTHROPIC,
        ":streamGenerateContent": GEMINI,
    }

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            path = self.path.partition("?")[0]
            events = next(events for end, events in streams.items() if path.endswith(end))
            names = (f"event: {event['type']}\n" if "type" in event else "" for event in events)
            body = "".join(
                f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(names, events, strict=True)
            )
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The attributes of the last span but for its operation and requested model."""
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr(_operation, "_tracer", provider.get_tracer("test"))

    def attributes() -> dict[str, Any]:
        last = memory.get_finished_spans()[-1].attributes or {}
        return {
            key.removeprefix("gen_ai."): json.loads(str(value)) if key.endswith(".messages") else value
            for key, value in last.items()
            if key not in {"gen_ai.operation.name", "gen_ai.request.model"}
        }

    yield attributes
    provider.shutdown()


TEXT = {"type": "text", "content": "Let me look."}
THOUGHT = {"type": "reasoning", "content": "Wait."}


def call(call_id: str, name: str = "look_up", arguments: object = None) -> dict[str, object]:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments or {"order": 7}}


def answer(response_id: str, model: str, reason: str, *parts: object, **usage: int) -> dict[str, object]:
    message = {"role": "assistant", "parts": list(parts), "finish_reason": reason}
    return {
        "response.id": response_id,
        "response.model": model,
        "response.finish_reasons": (reason,),
        "usage.input_tokens": 90,
        "usage.output_tokens": 20,
        "output.messages": [message],
        **{f"usage.{key}": value for key, value in usage.items()},
    }


CHAT_ANSWER = answer(
    "chatcmpl-1",
    "gpt-4.1-2025-04-14",
    "tool_calls",
    TEXT,
    call("call_1"),
    {"type": "tool_call", "id": "call_2", "name": "ping", "arguments": {}},
)
RESPONSES_ANSWER = answer("resp_1", "gpt-5-2025-08-07", "completed", TEXT, call("call_1")) | {
    "usage.cache_read.input_tokens": 64,
    "usage.reasoning.output_tokens": 12,
}
ANTHROPIC_ANSWER = answer("msg_1", "claude-sonnet-4-5-20250929", "tool_use", TEXT, call("toolu_1")) | {
    "usage.cache_read.input_tokens": 64,
    "usage.cache_creation.input_tokens": 8,
}
GEMINI_ANSWER = answer("r-1", "gemini-2.5-flash-001", "STOP", THOUGHT, TEXT, call("1")) | {
    "usage.reasoning.output_tokens": 12
}


def test_chunks_of_openais_chat_completions(server: str, recorded: Any) -> None:
    import openai

    with llm_call("m") as llm, openai.OpenAI(base_url=f"{server}/v1", api_key="k") as client:
        llm.record(list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True)))  # type: ignore[call-overload]
    assert recorded() == CHAT_ANSWER


def test_events_of_openais_responses(server: str, recorded: Any) -> None:
    import openai

    with llm_call("m") as llm, openai.OpenAI(base_url=f"{server}/v1", api_key="k") as client:
        llm.record(list(client.responses.create(model="m", input="?", stream=True)))
    assert recorded() == RESPONSES_ANSWER


def test_events_of_anthropics_messages_and_its_final_message(server: str, recorded: Any) -> None:
    import anthropic  # it takes 1.2 s, in each worker that collects this file

    client = anthropic.Anthropic(base_url=server, api_key="k")
    request: Any = {"model": "m", "max_tokens": 9, "messages": MESSAGES}
    with llm_call("m") as llm:
        llm.record(list(client.messages.create(**request, stream=True)))
    assert recorded() == ANTHROPIC_ANSWER
    with llm_call("m") as llm, client.messages.stream(**request) as stream:
        llm.record(stream.get_final_message())
    assert recorded() == ANTHROPIC_ANSWER


def test_chunks_of_gemini(server: str, recorded: Any) -> None:
    from google import genai

    client = genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=server))
    with llm_call("m") as llm:
        llm.record(list(client.models.generate_content_stream(model="gemini-2.5-flash", contents="?")))
    assert recorded() == GEMINI_ANSWER


def test_chunks_of_the_async_clients(server: str, recorded: Any) -> None:
    import openai
    from google import genai

    async def ask_openai() -> None:
        async with openai.AsyncOpenAI(base_url=f"{server}/v1", api_key="k") as client:
            with llm_call("m") as llm:
                stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)  # type: ignore[call-overload]
                llm.record([chunk async for chunk in stream])

    async def ask_anthropic() -> None:
        import anthropic

        async with anthropic.AsyncAnthropic(base_url=server, api_key="k") as client:
            with llm_call("m") as llm:
                request: Any = {"model": "m", "max_tokens": 9, "messages": MESSAGES}
                stream = await client.messages.create(**request, stream=True)
                llm.record([event async for event in stream])

    async def ask_gemini() -> None:
        client = genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=server)).aio
        with llm_call("m") as llm:
            stream = await client.models.generate_content_stream(model="gemini-2.5-flash", contents="?")
            llm.record([chunk async for chunk in stream])

    for ask, expected in (
        (ask_openai, CHAT_ANSWER),
        (ask_anthropic, ANTHROPIC_ANSWER),
        (ask_gemini, GEMINI_ANSWER),
    ):
        asyncio.run(ask())
        assert recorded() == expected


def test_calls_of_a_server_that_counts_none_are_told_apart_by_their_ids(recorded: Any) -> None:
    pieces = [
        {"id": "a", "function": {"name": "look_up", "arguments": '{"order":7}'}},
        {"id": "b", "function": {"name": "ping", "arguments": "{"}},
        {"function": {"arguments": "}"}},
    ]
    chunks = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces]
    with llm_call("m") as llm:
        llm.record(chunks)
    (message,) = recorded()["output.messages"]
    assert message["parts"] == [
        call("a"),
        {"type": "tool_call", "id": "b", "name": "ping", "arguments": {}},
    ]


@pytest.mark.parametrize("chunks", [[], ["text"], [{"type": "ping"}]])
def test_what_is_not_a_stream_is_logged_and_marked(
    chunks: list[Any], recorded: Any, caplog: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(_operation, "_logged_s", {})
    with llm_call("m") as llm:
        llm.record(chunks)
    assert "not those of an answer of OpenAI, Anthropic or Gemini" in caplog.text
    assert recorded()["spangrade.not_recorded"].startswith("CurrentLLMCall.record at ")
