"""Sessions that are hard on a page: one in which every recorded field is hostile, and large ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

TEXTS = (
    "<script>window.attacked=1</script>",
    "</script><script>window.attacked=2</script>",
    "</style></title></textarea></pre><img src=x onerror=window.attacked=3>",
    '" autofocus onfocus=window.attacked=4 x="',
    "' onmouseover=window.attacked=5 '",
    "javascript:window.attacked=6",
    "<a href=javascript:window.attacked=7>x</a>",
    "<svg onload=window.attacked=8><set attributeName=href to=javascript:window.attacked=9>",
    "{{ 7 * 7 }}{% raw %}${window.attacked=10}",
    "<!--><img src=x onerror=window.attacked=11>-->",
    "&lt;b&gt; &#60;img&#62; &amp;",
    "\u202egnp.exe\u2066 \u200f right to left",
    "nul \x00 escape \x1b[31m bell \x07 del \x7f",
    "\u2028line\u2029 \ufeff\ud7ff\ue000\U0010ffff",
    "<iframe srcdoc='<script>parent.attacked=12</script>'><base href=//evil.example>",
    "<form action=javascript:window.attacked=13><button>x</button></form>",
    "<div hx-get=/ hx-trigger=load hx-on:load=window.attacked=14>",
)
ATTACK = "".join(TEXTS)
SESSION_ID = f"hostile {ATTACK}"
_TRACE = "d" * 32


def spans() -> list[Span]:
    """Return a turn of an agent with a model call, a tool and a tool that failed."""
    messages = [{"role": "user", "parts": [{"type": "text", "content": ATTACK}]}]
    reply = [{"role": "assistant", "parts": [{"type": "text", "content": ATTACK}], "finish_reason": "stop"}]
    value = {ATTACK: [ATTACK, {"nested": ATTACK}]}
    common = {
        "gen_ai.conversation.id": SESSION_ID,
        "gen_ai.agent.name": ATTACK,
        "gen_ai.agent.version": ATTACK,
        "user.id": ATTACK,
        ATTACK: ATTACK,
    }

    def span(number: int, name: str, start: int, end: int, own: dict[str, Any], **fields: Any) -> Span:
        return Span(
            _TRACE,
            f"{number:016x}",
            None if number == 1 else f"{1:016x}",
            f"{name} {ATTACK}",
            "INTERNAL",
            start * 10**9,
            end * 10**9,
            attributes={**common, **own},
            resource={"service.name": ATTACK},
            scope_name=ATTACK,
            **fields,
        )

    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": ATTACK,
        "gen_ai.tool.call.arguments": json.dumps(value),
        "gen_ai.tool.call.result": json.dumps(value),
    }
    return [
        span(
            1,
            "invoke_agent",
            0,
            9,
            {
                "gen_ai.operation.name": "invoke_agent",
                "spangrade.question_id": ATTACK,
                "spangrade.state": json.dumps({ATTACK: ATTACK}),
                "spangrade.tags": [ATTACK],
            },
        ),
        span(
            2,
            "chat",
            1,
            3,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": ATTACK,
                "gen_ai.response.model": ATTACK,
                "gen_ai.provider.name": ATTACK,
                "gen_ai.input.messages": json.dumps(messages),
                "gen_ai.output.messages": json.dumps(reply),
                "gen_ai.usage.input_tokens": 3,
                "gen_ai.usage.output_tokens": 4,
            },
        ),
        span(3, "execute_tool", 3, 5, {**tool, "gen_ai.tool.call.id": ATTACK}),
        span(
            4,
            "execute_tool",
            5,
            7,
            {**tool, "gen_ai.tool.call.id": f"second {ATTACK}", "error.type": ATTACK},
            status="ERROR",
            status_message=ATTACK,
        ),
    ]


def golden() -> dict[str, Any]:
    """Return a golden dataset whose question the session answers, and fails."""
    reference = {
        "reference_trajectory": [ATTACK, f"other {ATTACK}"],
        "reference_tool_interactions": [
            {"tool_name": ATTACK, "input_arguments": {ATTACK: f"other {ATTACK}"}},
            {"tool_name": f"other {ATTACK}", "output": ATTACK},
        ],
        "reference_state_variables": {ATTACK: f"other {ATTACK}"},
        "reference_response": f"other {ATTACK}",
    }
    question = {
        "id": ATTACK,
        "user_inputs": [ATTACK],
        "agents_evaluated": [ATTACK, f"other {ATTACK}"],
        "reference_data": reference,
    }
    return {"golden_questions": [question]}


def store_session(db: Path) -> None:
    """Write the session to a database."""
    with Store.open(db) as store:
        store.add(spans())


def large_spans(number: int, message: str = "hello") -> Iterator[Span]:
    """Yield the spans of one turn with a number of tool calls."""
    trace_id, common = "e" * 32, {"gen_ai.conversation.id": "large", "gen_ai.agent.name": "shop"}
    top = f"{1:016x}"
    messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": message}]}])
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.input.messages": messages,
    }
    yield Span(
        trace_id, top, None, "invoke_agent shop", "INTERNAL", 0, (number + 3) * 10**6,
        attributes={**common, "gen_ai.operation.name": "invoke_agent"},
    )  # fmt: skip
    yield Span(trace_id, f"{2:016x}", top, "chat", "CLIENT", 1, 10**6, attributes={**common, **chat})
    for index in range(3, number + 1):
        tool = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": f"tool_{index % 7}",
            "gen_ai.tool.call.id": f"c{index}",
            "gen_ai.tool.call.arguments": json.dumps({"index": index}),
            "gen_ai.tool.call.result": '"done"',
        }
        start_ns = index * 10**6
        yield Span(
            trace_id, f"{index:016x}", top, "execute_tool", "INTERNAL", start_ns, start_ns + 10**6,
            attributes={**common, **tool},
        )  # fmt: skip
