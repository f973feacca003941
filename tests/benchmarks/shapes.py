"""Recordings of many sessions, and of sessions that are long, wide, deep, or interleaved with others."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

DATASET = Path(__file__).parents[2] / "datasets" / "customer_service"
TRACE_ID = re.compile(r'"traceId": ?"([0-9a-f]{32})"')
SECOND = 10**9
START = 1_780_000_000 * SECOND


def sample_sessions(sessions: int) -> Iterator[str]:
    """Yield sessions of the sample dataset as JSON lines, each with its own trace and conversation ids."""
    recorded = (DATASET / "spans.otlp.jsonl").read_text(encoding="utf-8").splitlines()
    for number, line in zip(range(sessions), itertools.cycle(recorded), strict=False):
        copy = TRACE_ID.sub(lambda match, n=number: f'"traceId":"{n:08x}{match[1][8:]}"', line)
        yield copy.replace('"conversation-', f'"conversation-{number}-')


def conversations(sessions: int, turns: int, rounds: int) -> Iterator[str]:
    """Yield conversations by turn, interleaved: every model call repeats the messages of its turn.

    A turn has an agent, and a number of rounds of a model call and a tool, and a last model call.
    """
    for turn in range(turns):
        for session in range(sessions):
            yield _turn(f"s{session}", session * turns + turn + 1, START + turn * 3600 * SECOND, rounds)


class Asked(NamedTuple):
    """Golden questions, and sessions of one span each that answer them, as JSON lines."""

    questions: list[dict[str, Any]]
    lines: Iterator[str]


def asked(shape: str, number: int) -> Asked:
    """Return questions and sessions of a shape, as many as `number`.

    `apart`: each asks something else; `agents`: of 200 agents; `values`: told apart by `user_values` alone;
    `alike`: all begin alike, and the sessions stop there; `identical`: all are the same; `long`: a reply has
    1 MB.
    """
    user_inputs: list[str] = {
        "values": ["Hi, {what} of order {n} please"],
        "alike": ["Hi", "Where is order {n}?"],
        "identical": ["Hi"],
    }.get(shape, ["Where is order {n}?"])
    names = [f"agent {n % 200}" if shape == "agents" else "shop" for n in range(number)]
    questions = [
        {
            "id": f"q{n}",
            "user_inputs": [text.replace("{n}", str(n)) for text in user_inputs],
            "agents_evaluated": [name],
            "reference_data": {"reference_trajectory": [name]},
            **({"user_values": ["what"]} if shape == "values" else {}),
        }
        for n, name in enumerate(names)
    ]
    reply = "x" * 1_000_000 if shape == "long" else "Hello."
    said = user_inputs[0].replace("{what}", "the state")
    return Asked(
        questions, (_answer(n, name, said.replace("{n}", str(n)), reply) for n, name in enumerate(names))
    )


def _answer(number: int, agent: str, said: str, reply: str) -> str:
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        "gen_ai.conversation.id": f"s{number}",
        "gen_ai.input.messages": json.dumps([_message("user", {"type": "text", "content": said})]),
        "gen_ai.output.messages": json.dumps([_message("assistant", {"type": "text", "content": reply})]),
    }
    start = START + number * SECOND
    return _line([_span(number + 1, 1, None, start, SECOND // 2, f"invoke_agent {agent}", **attributes)])


def chain(depth: int) -> Iterator[str]:
    """Yield one session of tools that are each inside the one before, in lines of a thousand spans."""
    spans = [
        _span(
            1, i + 1, i or None, START + i, 2 * depth - 2 * i, f"execute_tool t{i}", **_tool(f"t{i}", f"c{i}")
        )
        for i in range(depth)
    ]
    for first in range(0, depth, 1_000):
        yield _line(spans[first : first + 1_000])


def _turn(session: str, trace: int, start: int, rounds: int) -> str:
    conversation = {"gen_ai.conversation.id": session}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
    length = (2 * rounds + 3) * SECOND
    spans = [_span(trace, 1, None, start, length, "invoke_agent a", **agent, **conversation)]
    history: list[dict[str, Any]] = [_message("user", {"type": "text", "content": f"Question {trace}?"})]
    for number in range(rounds + 1):
        begin, call_id = start + (2 * number + 1) * SECOND, f"c{trace}-{number}"
        call = {"type": "tool_call", "id": call_id, "name": "lookup", "arguments": {"id": call_id}}
        text = {"type": "text", "content": "Done."}
        answer = _message("assistant", text if number == rounds else call)
        chat = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "gemini-2.5-flash",
            "gen_ai.provider.name": "gcp.gemini",
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.output_tokens": 10,
            "gen_ai.input.messages": json.dumps(history),
            "gen_ai.output.messages": json.dumps([answer]),
        }
        spans.append(_span(trace, 2 * number + 2, 1, begin, SECOND // 2, "chat m", **chat, **conversation))
        if number < rounds:
            spans.append(
                _span(
                    trace, 2 * number + 3, 1, begin + SECOND, SECOND // 2, "execute_tool lookup",
                    **_tool("lookup", call_id), **conversation,
                )
            )  # fmt: skip
            result = {"type": "tool_call_response", "id": call_id, "response": {"status": "ok"}}
            history += [answer, _message("tool", result)]
    return _line(spans)


def _message(role: str, part: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": [part]}


def _tool(name: str, call_id: str) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.call.arguments": json.dumps({"id": call_id}),
        "gen_ai.tool.call.result": '{"status": "ok"}',
    }


def _span(
    trace: int, number: int, parent: int | None, start: int, length: int, name: str, **attributes: Any
) -> dict[str, Any]:
    made = {
        "traceId": f"{trace:032x}",
        "spanId": f"{number:016x}",
        "name": name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + length),
        "attributes": [
            {
                "key": key,
                "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value},
            }
            for key, value in attributes.items()
        ],
    }
    return made if parent is None else made | {"parentSpanId": f"{parent:016x}"}


def _line(spans: list[dict[str, Any]]) -> str:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
