"""A scripted model behind the APIs of OpenAI and Anthropic, for frameworks with their own clients.

In the first turn it calls a tool with arguments. In the second it hands off, where the framework offers that,
and calls a tool that fails. It sees nothing but the messages and the tools on offer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

FIRST, SECOND = "What is the weather in Paris?", "Please cancel order A-7."
NOW, SORRY = "It is 21 degrees in Paris.", "Order A-7 cannot be cancelled."
WEATHER, CANCEL = ("get_weather", {"city": "Paris", "days": 2}), ("cancel_order", {"order_id": "A-7"})
INPUT_TOKENS, OUTPUT_TOKENS = 100, 10
_HANDOFFS = ("transfer", "handoff", "orders")

Step = str | tuple[str, dict[str, Any]]


def next_step(messages: Any, tools: list[str]) -> Step:
    """Return the call, or the text, that follows messages; of these the last question counts."""
    text = json.dumps(messages, default=str)
    first, second = text.rfind(FIRST), text.rfind(SECOND)
    call, reply = (WEATHER, NOW) if first > second else (CANCEL, SORRY)
    since = text[max(first, second) :]
    if call[0] not in since:
        offered = call[0] in tools
        handoff = next((name for name in tools if any(word in name.lower() for word in _HANDOFFS)), None)
        return call if offered or handoff is None or handoff == call[0] else (handoff, {})
    return ("final_answer", {"answer": reply}) if "final_answer" in tools else reply


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    calls = 0
    stored: ClassVar[dict[str, Any]] = {}  # by the id of a response: what a later request may go on from

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).calls += 1
        tools = [one.get("name") or one["function"]["name"] for one in body.get("tools") or []]
        messages = [
            self.stored.get(body.get("previous_response_id") or ""),
            body.get("messages"),
            body.get("input"),
        ]
        step = next_step(messages, tools)
        path = self.path.split("?")[0]
        answer = (
            _message
            if path.endswith("/messages")
            else _response
            if path.endswith("/responses")
            else _completion
        )
        made = answer(step, type(self).calls, body.get("model", "scripted"))
        self.stored[made["id"]] = [*messages, made.get("output")]
        if body.get("stream") and answer is _completion:
            self._send("text/event-stream", "".join(map(_event, _chunks(made))) + "data: [DONE]\n\n")
        else:
            self._send("application/json", json.dumps(made))

    def _send(self, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def _event(chunk: dict[str, Any]) -> str:
    return f"data: {json.dumps(chunk)}\n\n"


def _completion(step: Step, number: int, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": step if isinstance(step, str) else None}
    if not isinstance(step, str):
        function = {"name": step[0], "arguments": json.dumps(step[1])}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    reason = "stop" if isinstance(step, str) else "tool_calls"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": INPUT_TOKENS,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
    }


def _chunks(made: dict[str, Any]) -> Iterator[dict[str, Any]]:
    choice = made["choices"][0]
    calls = [{"index": i, **one} for i, one in enumerate(choice["message"].get("tool_calls") or [])]
    delta = choice["message"] | ({"tool_calls": calls} if calls else {})
    common = {**made, "object": "chat.completion.chunk", "usage": None}
    yield {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**common, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield {**common, "choices": [], "usage": made["usage"]}


def _response(step: Step, number: int, model: str) -> dict[str, Any]:
    if isinstance(step, str):
        text = {"type": "output_text", "text": step, "annotations": []}
        item = {"type": "message", "id": f"m{number}", "role": "assistant", "status": "completed"}
        item |= {"content": [text]}
    else:
        item = {"type": "function_call", "id": f"f{number}", "call_id": f"call_{number}", "name": step[0]}
        item |= {"arguments": json.dumps(step[1]), "status": "completed"}
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": model,
        "output": [item],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": INPUT_TOKENS,
            "output_tokens": OUTPUT_TOKENS,
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _message(step: Step, number: int, model: str) -> dict[str, Any]:
    if isinstance(step, str):
        block: dict[str, Any] = {"type": "text", "text": step}
    else:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": step[0], "input": step[1]}
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [block],
        "stop_reason": "end_turn" if isinstance(step, str) else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
    }


@contextmanager
def model_server() -> Iterator[str]:
    """Serve the scripted model, and give the server's address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
