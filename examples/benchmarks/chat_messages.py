"""Chat messages with scores (JSON Lines) as spans that `spangrade import` reads, and as labels.

    python examples/benchmarks/chat_messages.py sessions.jsonl spans.jsonl labels.csv

A line has an `id` and `messages` as OpenAI's chat API has them, and may have a `question_id`, the `state` at
the end (an object of variables) and `scores` (an object of numbers). A turn is a span of the agent, with one
for each tool call. Times are made up: one second for a message.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

START_NS, SECOND_NS = 1_767_225_600_000_000_000, 1_000_000_000  # 2026-01-01


def turns_of(messages: Sequence[Mapping[str, Any]]) -> Iterator[list[tuple[int, Mapping[str, Any]]]]:
    """Yield the numbered messages of each turn: one of the user, and all until the next."""
    starts = [place for place, one in enumerate(messages) if one["role"] == "user"]
    for start, end in pairwise([*starts, len(messages)]):
        yield list(enumerate(messages))[start:end]


def spans_of(session: Mapping[str, Any], agent: str = "agent") -> Iterator[dict[str, Any]]:
    """Yield the spans of a session, as OTLP has them in JSON."""
    common = {"gen_ai.conversation.id": session["id"]}
    if session.get("question_id"):
        common["spangrade.question_id"] = session["question_id"]
    turns = list(turns_of(session["messages"]))
    results = {one.get("tool_call_id"): _text(one) for one in session["messages"] if one["role"] == "tool"}
    for number, turn in enumerate(turns, 1):
        ids = {"traceId": _id(32, session["id"], number), "parentSpanId": _id(16, session["id"], number)}
        last = turn[-1][1]  # a text beside a call is not a reply
        said = {"gen_ai.input.messages": _message(turn[0][1])}
        if last["role"] == "assistant" and _text(last):
            said["gen_ai.output.messages"] = _message(last)
        if number == len(turns) and session.get("state") is not None:
            said["spangrade.state"] = json.dumps(session["state"])
        named = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent, **common, **said}
        whole = turn[0][0], turn[-1][0] + 1
        yield {**ids, **_span(f"invoke_agent {agent}", ids["parentSpanId"], whole, named), "parentSpanId": ""}
        for place, message in turn:
            for call in message.get("tool_calls") or ():
                name, given = call["function"]["name"], call["function"]["arguments"]
                own = _id(16, session["id"], number, place, call["id"])
                attributes = {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": name,
                    "gen_ai.tool.call.id": call["id"],
                    "gen_ai.tool.call.arguments": given if isinstance(given, str) else json.dumps(given),
                    **({"gen_ai.tool.call.result": results[call["id"]]} if call["id"] in results else {}),
                }
                span = _span(f"execute_tool {name}", own, (place, place + 1), common | attributes)
                failed = str(results.get(call["id"], "")).startswith("Error")
                yield {**ids, **span, "status": {"code": 2} if failed else {}}


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _message(message: Mapping[str, Any]) -> str:
    parts = [{"type": "text", "content": _text(message)}]
    return json.dumps([{"role": message["role"], "parts": parts}])


def _id(length: int, *parts: object) -> str:
    return sha256("/".join(map(str, parts)).encode()).hexdigest()[:length]


def _span(name: str, span_id: str, places: tuple[int, int], attributes: Mapping[str, str]) -> dict[str, Any]:
    start, end = (str(START_NS + place * SECOND_NS) for place in places)
    values = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    times = {"startTimeUnixNano": start, "endTimeUnixNano": end}
    return {"spanId": span_id, "name": name, **times, "attributes": values}


def write(sessions: Sequence[Mapping[str, Any]], spans: Path, labels: Path, by: str = "") -> None:
    """Write the spans of sessions, an export request for each, and their scores as a table, `by` whom."""
    with spans.open("w") as file:
        for session in sessions:
            scope = {"scope": {"name": "chat_messages"}, "spans": list(spans_of(session))}
            file.write(json.dumps({"resourceSpans": [{"scopeSpans": [scope]}]}) + "\n")
    with labels.open("w", newline="") as file:
        rows = [(one["id"], *score, by) for one in sessions for score in (one.get("scores") or {}).items()]
        csv.writer(file).writerows([("session_id", "name", "value", "by"), *rows])


if __name__ == "__main__":
    source, *targets = map(Path, sys.argv[1:])
    write([json.loads(line) for line in source.read_text().splitlines()], *targets)
