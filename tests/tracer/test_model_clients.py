"""What model clients take and return, recorded as the conventions have it."""

from __future__ import annotations

import itertools
import json
import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spangrade import tracer
from spangrade.converters.spans.provider_values import gemini_usage
from spangrade.tracer import _operation
from spangrade.tracer._content import set_content_capture
from spangrade.tracer._responses import gemini_tokens


@pytest.fixture
def recorded(monkeypatch):
    """The attributes of the last ended span, those that are JSON text parsed."""
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr(_operation, "_tracer", provider.get_tracer("test"))
    monkeypatch.setattr(_operation, "_logged_s", {})
    monkeypatch.delenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", raising=False)
    set_content_capture(None)

    def attributes():
        last = memory.get_finished_spans()[-1].attributes
        return {
            key.removeprefix("gen_ai."): json.loads(value)
            if key.endswith((".messages", "_instructions"))
            else value
            for key, value in last.items()
            if key not in {"gen_ai.operation.name", "gen_ai.request.model"}
        }

    yield attributes
    provider.shutdown()


OPENAI_CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4.1-2025-04-14",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "look_up", "arguments": '{"order":7}'},
                    }
                ],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 90,
        "completion_tokens": 20,
        "total_tokens": 110,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 12},
    },
}
OPENAI_RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "gpt-5-2025-08-07",
    "status": "completed",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "look_up",
            "arguments": '{"order":7}',
        },
    ],
    "usage": {
        "input_tokens": 90,
        "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 12},
        "total_tokens": 110,
    },
}
# As `Message.model_dump()` of anthropic 2.12.0 writes it.
ANTHROPIC = {
    "id": "msg_1",
    "container": None,
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5-20250929",
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "content": [
        {"type": "thinking", "thinking": "An order.", "signature": "s"},
        {"type": "text", "text": "Let me look.", "citations": None},
        {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"order": 7}, "caller": None},
    ],
    "usage": {
        "cache_creation": None,
        "cache_creation_input_tokens": 8,
        "cache_read_input_tokens": 64,
        "input_tokens": 18,
        "output_tokens": 20,
        "output_tokens_details": {"thinking_tokens": 12},
        "server_tool_use": None,
    },
}
GEMINI = {
    "response_id": "r-1",
    "model_version": "gemini-2.5-flash-001",
    "candidates": [
        {
            "finish_reason": "STOP",
            "content": {
                "role": "model",
                "parts": [
                    {"text": "An order.", "thought": True},
                    {"text": "Let me look.", "thought_signature": b"\xff"},
                    {"function_call": {"id": "1", "name": "look_up", "args": {"order": 7}}},
                ],
            },
        }
    ],
    "usage_metadata": {
        "prompt_token_count": 80,
        "tool_use_prompt_token_count": 10,
        "cached_content_token_count": 64,
        "candidates_token_count": 8,
        "thoughts_token_count": 12,
        "total_token_count": 110,
    },
}
TOKENS = {
    "usage.input_tokens": 90,
    "usage.output_tokens": 20,
    "usage.cache_read.input_tokens": 64,
    "usage.reasoning.output_tokens": 12,
}
THOUGHT = {"type": "reasoning", "content": "An order."}
TEXT = {"type": "text", "content": "Let me look."}


def call(call_id):
    return {"type": "tool_call", "id": call_id, "name": "look_up", "arguments": {"order": 7}}


def answer(*parts, finish_reason):
    return {
        "output.messages": [{"role": "assistant", "parts": list(parts), "finish_reason": finish_reason}],
        "response.finish_reasons": (finish_reason,),
    }


# What the clients' own classes make of these is made in the test: to import the classes takes seconds.
def openai_chat():
    from openai.types.chat import ChatCompletion

    return ChatCompletion.model_validate(OPENAI_CHAT)


def openai_response():
    from openai.types.responses import Response

    return Response.model_validate(OPENAI_RESPONSE)


def gemini_response():
    from google.genai.types import GenerateContentResponse

    return GenerateContentResponse.model_validate(GEMINI)


def made(value):
    return value() if callable(value) else value


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (
            openai_chat,
            {
                "response.id": "chatcmpl-1",
                "response.model": "gpt-4.1-2025-04-14",
                **TOKENS,
                **answer(call("call_1"), finish_reason="tool_calls"),
            },
        ),
        (
            openai_response,
            {
                "response.id": "resp_1",
                "response.model": "gpt-5-2025-08-07",
                **TOKENS,
                "usage.cache_creation.input_tokens": 8,
                **answer(TEXT, call("call_1"), finish_reason="completed"),
            },
        ),
        (
            ANTHROPIC,
            {
                "response.id": "msg_1",
                "response.model": "claude-sonnet-4-5-20250929",
                **TOKENS,
                "usage.cache_creation.input_tokens": 8,
                **answer(THOUGHT, TEXT, call("toolu_1"), finish_reason="tool_use"),
            },
        ),
        (
            gemini_response,
            {
                "response.id": "r-1",
                "response.model": "gemini-2.5-flash-001",
                **TOKENS,
                **answer(THOUGHT, TEXT, call("1"), finish_reason="STOP"),
            },
        ),
    ],
    ids=["openai-chat", "openai-responses", "anthropic", "gemini"],
)
@pytest.mark.parametrize("form", ["object", "dictionary"])
def test_a_response_is_recorded_whole(recorded, response, expected, form):
    response = made(response)
    if form == "dictionary" and not isinstance(response, dict):
        response = response.model_dump()
    with tracer.llm_call("m") as llm:
        llm.record(response)
    assert recorded() == expected


def test_a_response_without_captured_content_has_its_model_and_tokens(recorded):
    set_content_capture(False)
    try:
        with tracer.llm_call("m") as llm:
            llm.record(ANTHROPIC)
    finally:
        set_content_capture(None)
    assert recorded() == {
        "response.id": "msg_1",
        "response.model": "claude-sonnet-4-5-20250929",
        **TOKENS,
        "usage.cache_creation.input_tokens": 8,
        "response.finish_reasons": ("tool_use",),
    }


def test_geminis_tokens_are_counted_as_the_converters_count_them():
    names = tuple(GEMINI["usage_metadata"])[:-1]
    for counts in itertools.product((None, 0, 5), repeat=len(names)):
        usage = dict(zip(names, counts, strict=True))
        ours, theirs = gemini_tokens(usage), gemini_usage(usage)
        assert (
            ours.input_tokens,
            ours.output_tokens,
            ours.cached_input_tokens,
            ours.reasoning_tokens,
        ) == theirs[:4], usage


def openai_messages():
    return [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "https://shop.example/a.png"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                {"type": "input_audio", "input_audio": {"data": "BBBB", "format": "wav"}},
            ],
        },
        openai_chat().choices[0].message,
        {"role": "tool", "tool_call_id": "call_1", "content": '{"status": "shipped"}'},
    ]


ANTHROPIC_MESSAGES = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        ],
    },
    {"role": "assistant", "content": ANTHROPIC["content"]},
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "lost", "is_error": True},
        ],
    },
]


def gemini_contents():
    from google.genai import types as genai

    return [
        genai.Content(
            role="user",
            parts=[
                genai.Part(text="What is this?"),
                genai.Part.from_bytes(data=b"\x00\x00\x00", mime_type="image/png"),
                genai.Part.from_uri(file_uri="gs://shop/a.png", mime_type="image/png"),
            ],
        ),
        gemini_response().candidates[0].content,
        genai.Content(
            role="user",
            parts=[
                genai.Part(
                    function_response=genai.FunctionResponse(
                        id="1", name="look_up", response={"status": "shipped"}
                    )
                )
            ],
        ),
    ]


def responses_input():
    return [
        {"role": "user", "content": [{"type": "input_text", "text": "What is this?"}]},
        *openai_response().output,
        {"type": "function_call_output", "call_id": "call_1", "output": "shipped"},
    ]


QUESTION = {"type": "text", "content": "What is this?"}
PNG = {"type": "blob", "mime_type": "image/png", "modality": "image", "content": "AAAA"}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (
            openai_messages,
            [
                {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
                {
                    "role": "user",
                    "parts": [
                        QUESTION,
                        {"type": "uri", "modality": "image", "uri": "https://shop.example/a.png"},
                        PNG,
                        {"type": "blob", "mime_type": "audio/wav", "modality": "audio", "content": "BBBB"},
                    ],
                },
                {"role": "assistant", "parts": [call("call_1")]},
                {
                    "role": "tool",
                    "parts": [
                        {"type": "tool_call_response", "id": "call_1", "response": '{"status": "shipped"}'}
                    ],
                },
            ],
        ),
        (
            ANTHROPIC_MESSAGES,
            [
                {"role": "user", "parts": [QUESTION, PNG, {"type": "file", "file_id": "file_1"}]},
                {"role": "assistant", "parts": [THOUGHT, TEXT, call("toolu_1")]},
                {
                    "role": "user",
                    "parts": [
                        {"type": "tool_call_response", "id": "toolu_1", "is_error": True, "response": "lost"}
                    ],
                },
            ],
        ),
        (
            gemini_contents,
            [
                {
                    "role": "user",
                    "parts": [
                        QUESTION,
                        PNG,
                        {
                            "type": "uri",
                            "mime_type": "image/png",
                            "modality": "image",
                            "uri": "gs://shop/a.png",
                        },
                    ],
                },
                {"role": "assistant", "parts": [THOUGHT, TEXT, call("1")]},
                {
                    "role": "user",
                    "parts": [
                        {
                            "type": "tool_call_response",
                            "id": "1",
                            "name": "look_up",
                            "response": {"status": "shipped"},
                        }
                    ],
                },
            ],
        ),
        (
            responses_input,
            [
                {"role": "user", "parts": [QUESTION]},
                {"role": "assistant", "id": "msg_1", "status": "completed", "parts": [TEXT]},
                {"role": "assistant", "parts": [call("call_1")]},
                {
                    "role": "tool",
                    "parts": [{"type": "tool_call_response", "id": "call_1", "response": "shipped"}],
                },
            ],
        ),
        (lambda: gemini_contents()[0].parts[:1], [{"role": "user", "parts": [QUESTION]}]),
        (
            ["What is", " this?"],
            [
                {
                    "role": "user",
                    "parts": [{"type": "text", "content": "What is"}, {"type": "text", "content": " this?"}],
                }
            ],
        ),
        (
            [{"role": "tool", "content": [{"toolResult": {"toolUseId": "1", "content": []}}]}],
            [{"role": "tool", "parts": [{"toolResult": {"toolUseId": "1", "content": []}}]}],
        ),
        ({"role": "user", "content": "What is this?"}, [{"role": "user", "parts": [QUESTION]}]),
        (
            [{"role": "user", "parts": [QUESTION, PNG]}, {"role": "assistant", "parts": [call("1")]}],
            [{"role": "user", "parts": [QUESTION, PNG]}, {"role": "assistant", "parts": [call("1")]}],
        ),
    ],
    ids=[
        "openai",
        "anthropic",
        "gemini",
        "responses",
        "a-part",
        "texts",
        "bedrock",
        "a-message",
        "conventions",
    ],
)
def test_messages_of_a_client_are_recorded_as_the_conventions_have_them(recorded, messages, expected):
    with tracer.llm_call("m") as llm:
        llm.input(made(messages))
    assert recorded() == {"input.messages": expected}


@pytest.mark.parametrize(
    ("tool_calls", "call_id"),
    [
        (OPENAI_CHAT["choices"][0]["message"]["tool_calls"], "call_1"),
        (lambda: openai_chat().choices[0].message.tool_calls, "call_1"),
        (ANTHROPIC["content"][2:], "toolu_1"),
        (lambda: gemini_response().function_calls, "1"),
        ([{"id": "1", "name": "look_up", "arguments": {"order": 7}}], "1"),
    ],
)
def test_an_answer_of_tool_calls_without_a_text_is_recorded(recorded, caplog, tool_calls, call_id):
    with tracer.llm_call("m") as llm:
        llm.output(None, tool_calls=made(tool_calls))
    assert recorded() == {"output.messages": [{"role": "assistant", "parts": [call(call_id)]}]}
    assert caplog.messages == []


def test_an_answer_without_tool_calls_may_have_none(recorded, caplog):
    with tracer.llm_call("m") as llm:
        llm.output("Done.", tool_calls=None)
    assert recorded() == {
        "output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "Done."}]}]
    }
    assert caplog.messages == []


def test_what_cannot_be_recorded_is_logged_in_one_line_per_place_and_marked(recorded, caplog):
    with tracer.llm_call("m") as llm:
        line = sys._getframe().f_lineno
        for _ in range(3):
            llm.output(42)
        llm.record("a text")
    output, record = f"{__file__}:{line + 2}", f"{__file__}:{line + 3}"
    not_text = "TypeError: a message is a text or an object, not int"
    not_response = "TypeError: str is not a response of OpenAI, Anthropic or Gemini"
    assert [(record.levelname, record.getMessage(), record.exc_info) for record in caplog.records] == [
        ("WARNING", f"{output}: CurrentLLMCall.output could not be recorded: {not_text}", False),
        ("WARNING", f"{record}: CurrentLLMCall.record could not be recorded: {not_response}", False),
    ]
    assert recorded() == {"spangrade.not_recorded": f"CurrentLLMCall.record at {record}"}


def test_a_count_that_is_not_a_number_does_not_lose_the_others(recorded, caplog):
    with tracer.llm_call("m") as llm:
        llm.usage(input_tokens="many", output_tokens=4)
    assert [message.partition(": ")[2] for message in caplog.messages] == [
        "CurrentLLMCall.usage could not be recorded: TypeError: gen_ai.usage.input_tokens is of type str"
    ]
    assert recorded()["usage.output_tokens"] == 4
