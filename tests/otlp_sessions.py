"""Small recordings as files: OTLP JSON of sessions, and golden questions, for tests of the command line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

START_NS = 1_767_258_000_000_000_000  # 2026-01-01, 09:00 UTC
_STEP_NS = 1_000_000


class Call(NamedTuple):
    """A tool call; with `error` it failed, with `only_requested` nothing shows that it ran.

    `at` is when it starts and ends, in milliseconds of the turn; by default calls follow each other.
    """

    name: str
    arguments: dict[str, Any] | None = None
    result: Any = "done"
    error: str | None = None
    at: tuple[int, int] | None = None
    only_requested: bool = False


class Said(NamedTuple):
    """A turn: the user's text, the agent's reply (None: none), its calls; with `error` the agent failed.

    Without `model` no model was called.
    """

    user: str
    reply: str | None = "Done."
    calls: Sequence[Call] = ()
    error: str | None = None
    tokens: tuple[int, int] | None = (10, 5)
    model: bool = True


def write_sessions(
    file: Path,
    sessions: Iterable[tuple[str, Sequence[Said]]],
    *,
    agent: str = "shop",
    start_ns: int = START_NS,
    version: str | None = None,
    prompt: str | None = None,
) -> Path:
    """Write sessions, each an id and its turns, to a file as OTLP JSON lines; return the file."""
    recorded = recorded_sessions(sessions, agent=agent, start_ns=start_ns, version=version, prompt=prompt)
    file.write_text(json.dumps(recorded) + "\n")
    return file


def recorded_sessions(
    sessions: Iterable[tuple[str, Sequence[Said]]],
    *,
    agent: str = "shop",
    start_ns: int = START_NS,
    version: str | None = None,
    prompt: str | None = None,
) -> dict[str, Any]:
    """Return sessions, each an id and its turns, as OTLP JSON."""
    resource = {"attributes": [{"key": "service.version", "value": {"stringValue": version}}]}
    spans: list[dict[str, Any]] = []
    for number, (session_id, turns) in enumerate(sessions):
        for index, turn in enumerate(turns):
            at = start_ns + number * 10**12 + index * 10**10
            spans += _turn(session_id, index, turn, agent, at)
    for span in spans if prompt is not None else ():
        span["attributes"].append({"key": "spangrade.prompt", "value": {"stringValue": prompt}})
    scope = {"scopeSpans": [{"scope": {"name": "tests"}, "spans": spans}]}
    recorded = [scope if version is None else {"resource": resource, **scope}]
    return {"resourceSpans": recorded}


def write_golden(file: Path, *questions: dict[str, Any]) -> Path:
    """Write golden questions to a file; each has its id, `user_inputs` and references."""
    file.write_text(json.dumps({"golden_questions": golden_questions(*questions)}))
    return file


def golden_questions(*questions: dict[str, Any]) -> list[dict[str, Any]]:
    """Return golden questions; each is given as its id, `user_inputs` and references."""
    return [
        {"id": one["id"], "user_inputs": one["user_inputs"], "agents_evaluated": one.get("agents", ["shop"])}
        | {
            "reference_data": {
                key: value for key, value in one.items() if key not in ("id", "user_inputs", "agents")
            }
        }
        for one in questions
    ]


def _turn(session_id: str, index: int, turn: Said, agent: str, at: int) -> list[dict[str, Any]]:
    trace = _id(32, session_id, index)
    root = _id(16, session_id, index, "root")
    asked = [{"role": "user", "parts": [{"type": "text", "content": turn.user}]}]
    replied: list[dict[str, Any]] = [
        {"role": "assistant", "parts": [{"type": "text", "content": turn.reply}]}
    ]
    messages = {"gen_ai.input.messages": json.dumps(asked)}
    if turn.reply is not None:
        messages["gen_ai.output.messages"] = json.dumps(replied)
    usage = {} if turn.tokens is None else dict(zip(_USAGE, turn.tokens, strict=True))
    common = {"gen_ai.conversation.id": session_id}
    agent_attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent} | messages
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gemini-2.5-flash"} | messages | usage
    chat |= {"gen_ai.provider.name": "gcp.gemini"}
    if requested := [call for call in turn.calls if call.only_requested]:
        replied[0]["parts"] += [
            {"type": "tool_call", "id": call.name, "name": call.name, "arguments": call.arguments or {}}
            for call in requested
        ]
        chat["gen_ai.output.messages"] = json.dumps(replied)
    end = at + (len(turn.calls) + 3) * 2 * _STEP_NS
    spans = [
        _span(trace, root, None, f"invoke_agent {agent}", (at, end), common | agent_attributes, turn.error)
    ]
    times = [(at + (2 * n + 1) * _STEP_NS, at + (2 * n + 2) * _STEP_NS) for n in range(len(turn.calls) + 1)]
    for number, call in enumerate(turn.calls):
        if call.only_requested:
            continue
        if call.at is not None:
            times[number] = at + call.at[0] * _STEP_NS, at + call.at[1] * _STEP_NS
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": f"call_{number}",
            "gen_ai.tool.call.arguments": json.dumps(call.arguments or {}),
        }
        if call.error is None:
            attributes["gen_ai.tool.call.result"] = json.dumps(call.result)
        span_id = _id(16, session_id, index, number)
        name = f"execute_tool {call.name}"
        spans.append(_span(trace, span_id, root, name, times[number], common | attributes, call.error))
    span_id = _id(16, session_id, index, "chat")
    if not turn.model:
        return spans
    spans.append(_span(trace, span_id, root, "chat gemini-2.5-flash", times[-1], common | chat, turn.error))
    return spans


_USAGE = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")


def _id(length: int, *parts: object) -> str:
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:length]


def _span(
    trace: str,
    span_id: str,
    parent: str | None,
    name: str,
    times: tuple[int, int],
    attributes: dict[str, Any],
    error: str | None,
) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": span_id,
        "parentSpanId": parent or "",
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(times[0]),
        "endTimeUnixNano": str(times[1]),
        "attributes": [
            {
                "key": key,
                "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value},
            }
            for key, value in attributes.items()
        ],
        "status": {"code": 2, "message": error} if error else {},
    }
