"""Spans of many conversations, as an unreliable network delivers them: as landing files and in a database.

One conversation in five records no id and is linked by its messages; some traces have a sub-agent with an id
of its own, some are recorded by two instrumentations; one span in twenty arrives twice and one in ten late.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spangrade.evaluator.derive.sync.update import update
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import rows_of
from spangrade.tracer.store.object_storage import storage_connection, write_landing

START_NS = 1_767_258_000_000_000_000  # 2026-01-01, 09:00 UTC
SECOND_NS = 1_000_000_000

Record = Span | LogRecord


def _id(length: int, *parts: object) -> str:
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:length]


def _messages(texts: Sequence[str], role: str = "user") -> list[dict[str, Any]]:
    other = {"user": "assistant", "assistant": "user"}
    made = []
    for text in texts:
        made.append({"role": role, "parts": [{"type": "text", "content": text}]})
        role = other[role]
    return made


def conversation(number: int, turns: int = 3) -> Iterator[Record]:
    """Yield the records of a conversation."""
    has_id = number % 5 != 0
    said: list[str] = []
    for turn in range(turns):
        said.append(f"question {turn} of {number}?" if turn else f"hello, I am customer {number}")
        at = START_NS + (number * 60 + turn * 10) * SECOND_NS
        yield from _turn(number, turn, at, said, f"conv-{_id(12, number)}" if has_id else None)
        said.append(f"answer {turn} for {number}")


def _turn(number: int, turn: int, at: int, said: Sequence[str], name: str | None) -> Iterator[Record]:
    trace = _id(32, number, turn)
    common: dict[str, Any] = {} if name is None else {"gen_ai.conversation.id": name}
    if number % 9 == 3:
        common["user.id"] = f"user-{number}"
    answer = f"answer {turn} for {number}"
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gemini-2.5-flash",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.input.messages": json.dumps(_messages(said)),
        "gen_ai.output.messages": json.dumps(_messages([answer], "assistant")),
        "gen_ai.usage.input_tokens": 100 + number % 7,
        "gen_ai.usage.output_tokens": 10 + turn,
        "gen_ai.response.id": f"response-{number}-{turn}",
    }

    def span(key: str, parent: str | None, seconds: tuple[float, float], **attributes: Any) -> Span:
        times = [at + int(second * SECOND_NS) for second in seconds]
        kind = attributes.get("gen_ai.operation.name", "work")
        return Span(
            trace,
            _id(16, trace, key),
            None if parent is None else _id(16, trace, parent),
            f"{kind} {key}",
            "INTERNAL",
            times[0],
            times[1],
            attributes={**common, **attributes},
            resource={"service.name": "shop"},
            scope_name="tests",
        )

    if name is None:  # a model client alone: a trace per call
        yield span("chat", None, (0, 2), **chat)
        return
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}
    messages = {key: chat[key] for key in ("gen_ai.input.messages", "gen_ai.output.messages")}
    yield span("agent", None, (0, 4), **agent, **messages)
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look_up",
        "gen_ai.tool.call.id": f"call-{turn}",
        "gen_ai.tool.call.arguments": json.dumps({"customer": number}),
        "gen_ai.tool.call.result": json.dumps({"ok": number % 11 > 0}),
    }
    yield span("tool", "agent", (1, 1.5), **tool)
    yield span("chat", "agent", (2, 3), **chat)
    if number % 9 == 1:  # a sub-agent with an id of its own
        inner = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}
        yield span("inner", "tool", (1.1, 1.4), **inner, **{"gen_ai.conversation.id": f"inner-{number}"})
    if number % 9 == 2:  # a second instrumentation records the call in a trace of its own
        second = span("second", None, (2, 3), **chat)
        attributes = {
            key: value for key, value in second.attributes.items() if key != "gen_ai.conversation.id"
        }
        del attributes["gen_ai.input.messages"], attributes["gen_ai.output.messages"]
        yield second._replace(
            trace_id=_id(32, "second", number, turn), attributes=attributes, scope_name="second"
        )
    if number % 9 == 3:  # state in a log of the conversation, and a score in one of the trace
        state = {"gen_ai.conversation.id": name, "spangrade.state": {"turn": turn, "customer": number}}
        yield LogRecord(None, None, at + SECOND_NS, "state", attributes=state)
        score = {"gen_ai.evaluation.name": "tone", "gen_ai.evaluation.score.value": 0.5 + turn / 10}
        yield LogRecord(
            trace, _id(16, trace, "agent"), at + SECOND_NS, "gen_ai.evaluation.result", attributes=score
        )


def deliveries(conversations: int, files: int = 6, seed: int = 7) -> list[list[Record]]:
    """Return records in the files in which they land: some twice, some late, those of a trace in several."""
    chance = random.Random(seed)
    landed: list[list[Record]] = [[] for _ in range(files)]
    for number in range(conversations):
        first = number * (files - 2) // conversations
        for record in conversation(number):
            late = chance.random() < 0.1
            target = chance.randrange(first, files) if late else first + chance.randrange(2)
            landed[target].append(record)
            if chance.random() < 0.05:
                landed[(target + chance.randrange(1, files)) % files].append(record)  # delivered again
    for records in landed:
        chance.shuffle(records)
    return landed


def land(landing: str, landed: Sequence[Sequence[Record]], first: int = 0) -> None:
    """Write records as landing files, each with the number of its delivery."""
    with storage_connection(threads=1) as connection:
        for number, records in enumerate(landed, first):
            tables = {table: [rows] for table, rows in rows_of(records).items()}
            arrived_ns = START_NS + number * 600 * SECOND_NS
            write_landing(connection, landing, f"segment-{number:04d}", arrived_ns, tables)


def single_machine(db: Path, landed: Sequence[Sequence[Record]]) -> Path:
    """Store the same records in a database file and derive their sessions."""
    with Store.open(db) as store:
        for records in landed:
            store.add(records)
        update(store)
    return db


def encoded(records: Sequence[Record]) -> Iterator[str]:
    """Yield OTLP JSON, one request per record."""
    for record in records:
        resource = {"attributes": _attributes(record.resource)}
        one: dict[str, Any] = {"traceId": record.trace_id or "", "spanId": record.span_id or ""}
        one["attributes"] = _attributes(record.attributes)
        if isinstance(record, Span):
            one |= {"parentSpanId": record.parent_span_id or "", "name": record.name, "kind": 1}
            one |= {"startTimeUnixNano": str(record.start_ns), "endTimeUnixNano": str(record.end_ns)}
            scoped = {"scope": {"name": record.scope_name or ""}, "spans": [one]}
            yield json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]})
        else:
            one |= {"timeUnixNano": str(record.time_ns), "eventName": record.event_name}
            scoped = {"scope": {"name": record.scope_name or ""}, "logRecords": [one]}
            yield json.dumps({"resourceLogs": [{"resource": resource, "scopeLogs": [scoped]}]})


def _attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _attributes(value)}}
    kind = {int: "intValue", float: "doubleValue", str: "stringValue"}[type(value)]
    return {kind: value}
