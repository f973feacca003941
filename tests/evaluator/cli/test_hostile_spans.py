"""No span that is accepted breaks a command: each ends with an exit code of its own, without a traceback."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import command_line
import pytest
from hostile import EXAMPLES, nested, spans
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import SAMPLE

from spangrade import ExitCode
from spangrade.tracer.span import Span

GOLDEN = SAMPLE / "customer_service_golden.json"
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.usage.output_tokens": 1}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
OPENINFERENCE = {"openinference.span.kind": "TOOL", "tool.name": "find"}
AGENT = {"gen_ai.operation.name": "invoke_agent"}
INPUTS, OUTPUTS = "gen_ai.input.messages", "gen_ai.output.messages"
ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
LARGEST = 2**63 - 1
# What broke every command, or might have: the attributes of the spans of one trace.
HOSTILE: dict[str, list[dict[str, Any]]] = {
    "a list as the operation": [{"gen_ai.operation.name": ["chat"]}],
    "an object as the operation": [{"gen_ai.operation.name": {"a": "chat"}}],
    "a list as OpenInference's kind": [{"openinference.span.kind": ["LLM"]}],
    "an object as Traceloop's kind": [{"traceloop.span.kind": {"a": 1}}],
    "a list as Traceloop's type of request": [{"traceloop.span.kind": "x", "llm.request.type": ["chat"]}],
    "a number as the nodes of a graph": [
        {**AGENT, "gen_ai.agent.name": "a", "gen_ai.workflow.nodes": 5, "traceloop.span.kind": "x"}
    ],
    "a list as a part's type": [
        {**CHAT, OUTPUTS: '[{"role": "assistant", "parts": [{"type": [1], "content": "x"}]}]'}
    ],
    "an object as a message's type": [{**CHAT, INPUTS: '[{"type": {"a": 1}}]'}],
    "a number as Logfire's tool calls": [
        {"request_data": '{"messages": []}', "response_data": '{"message": {"tool_calls": 5}}'}
    ],
    "an object as ADK's arguments": [{**TOOL, "gcp.vertex.agent.tool_call_args": {"a": 1}}],
    "1e300 tokens": [{**CHAT, "gen_ai.usage.input_tokens": 1e300}],
    "tokens of 30 digits": [{**CHAT, "gen_ai.usage.input_tokens": "9" * 30}],
    "tokens of 5,000 digits": [{**CHAT, "gen_ai.usage.input_tokens": "9" * 5_000}],
    "a sum of tokens past 2^63": [{**CHAT, "gen_ai.usage.input_tokens": LARGEST}] * 3,
    "a sum of large counts": [{**CHAT, "gen_ai.usage.input_tokens": 10**12}] * 3,
    "a call longer than time": [{"request_data": "{}", "logfire.span_type": "log", "duration": 1e300}],
    "arguments 99 deep": [{**TOOL, ARGUMENTS: json.loads(nested(97, "a"))}],
    "a text that parses to 250 levels": [{**TOOL, ARGUMENTS: nested(250, "a"), RESULT: nested(250, None)}],
    "a text that parses to 950 levels": [{**TOOL, ARGUMENTS: nested(950, "a"), RESULT: nested(950, None)}],
    "a text that parses to 1,000 levels": [{**TOOL, ARGUMENTS: nested(1_000, "a")}],
    "an error 250 deep": [{**TOOL, RESULT: f'{{"error": {nested(250, "a")}}}'}],
    "a LangChain message's type 1,000 deep": [
        {
            "openinference.span.kind": "CHAIN",
            "output.value": f'{{"messages": [{{"content": "", "type": {nested(990, "a")}}}]}}',
        }
    ],
    "state 1,000 deep": [{**CHAT, "spangrade.state": f'{{"x": {nested(1_000, "a")}}}'}],
    "half a surrogate pair in Python's syntax": [
        {**OPENINFERENCE, "output.value": "{'name': 'find', 'id': '\\ud800', 'response': '\\udfff'}"}
    ],
    "an unhashable key in Python's syntax": [{**OPENINFERENCE, "output.value": "{'a': {[]: 1}}"}],
    "NUL": [
        {**TOOL, "gen_ai.conversation.id": "a\0b", ARGUMENTS: '{"a\\u0000": "\\u0000"}'},
        {**CHAT, "gen_ai.conversation.id": "a\0b", "spangrade.state": '{"\\u0000": 1}'},
    ],
    "NaN": [{**CHAT, "gen_ai.usage.input_tokens": float("nan"), "duration": float("inf")}],
    "a number of 5,000 digits in a name": [
        {"openinference.span.kind": "LLM", f"llm.input_messages.{'9' * 5_000}.message.role": "x"}
    ],
}  # fmt: skip


def any_value(value: Any) -> dict[str, Any]:
    """Return a value in OTLP's JSON."""
    match value:
        case None:
            return {}
        case bool():
            return {"boolValue": value}
        case int() if -(2**63) <= value < 2**63:
            return {"intValue": str(value)}
        case int() | float():
            return {"doubleValue": value if abs(value) < float("inf") else str(value).replace("nan", "NaN")}
        case str():
            return {"stringValue": value}
        case list():
            return {"arrayValue": {"values": [any_value(item) for item in value]}}
    return {"kvlistValue": {"values": key_values(value)}}


def key_values(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": any_value(value)} for key, value in attributes.items()]


def otlp(span: Span) -> dict[str, Any]:
    """Return a request of OTLP with one span; OTLP has no negative times."""
    written = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "parentSpanId": span.parent_span_id or "",
        "name": span.name,
        "startTimeUnixNano": str(max(span.start_ns, 0)),
        "endTimeUnixNano": str(max(span.end_ns, 0)),
        "attributes": key_values(span.attributes),
        "events": [
            {
                "name": event["name"],
                "timeUnixNano": str(max(event["time_ns"], 0)),
                "attributes": key_values(event["attributes"]),
            }
            for event in span.events
        ],
        "status": {"code": {"UNSET": 0, "OK": 1, "ERROR": 2}[span.status]},
    }
    scope = {"scope": {"name": span.scope_name or ""}, "spans": [written]}
    return {"resourceSpans": [{"resource": {"attributes": key_values(span.resource)}, "scopeSpans": [scope]}]}


@contextmanager
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp())
    try:
        yield made
    finally:
        shutil.rmtree(made)


def check_commands(spangrade: command_line.Spangrade, some: Sequence[Span]) -> set[str]:
    """Run every command on a database of the spans; return the codes of lint's findings."""
    with folder() as place:
        file, db = place / "spans.otlp.jsonl", ("--db", place / "s.duckdb")
        file.write_text("".join(json.dumps(otlp(span)) + "\n" for span in some), encoding="utf-8")
        imported = spangrade("import", file, *db)
        assert imported.code in (ExitCode.PASSED, ExitCode.BAD_INPUT)
        if not (place / "s.duckdb").exists():  # no span could be read
            assert imported.code == ExitCode.BAD_INPUT
            return set()
        listed = spangrade("sessions", *db, "--format", "json")
        assert listed.code == ExitCode.PASSED
        assert spangrade("sessions", *db).code == ExitCode.PASSED
        ids = [one["session_id"] for one in json.loads("\n".join(listed.out))]
        for session_id in ids:
            assert spangrade("show", *db, "--", session_id).code == ExitCode.PASSED
            shown = spangrade("show", *db, "--format", "json", "--", session_id)
            assert json.loads("\n".join(shown.out))["session_id"] == session_id
        for view in ("sessions", "tool_interactions", "llm_calls", "state_variables", "unreadable_spans"):
            assert spangrade("sql", *db, "--format", "json", f"FROM {view}").code == ExitCode.PASSED
        linted = spangrade("lint", *db, "--format", "json")
        assert linted.code in (ExitCode.PASSED, ExitCode.INCONCLUSIVE)
        assert spangrade("grade", GOLDEN, *db).code in (ExitCode.FAILED, ExitCode.INCONCLUSIVE)
        if ids:
            to_delete = (f"--session={session_id}" for session_id in ids)
            deleted = json.loads("\n".join(spangrade("delete", *db, *to_delete, "--format", "json").out))
            assert deleted["sessions"] == len(ids)
        return {finding["code"] for finding in json.loads("\n".join(linted.out))}


@pytest.mark.exhaustive
def test_every_command_works_on_what_broke_them(spangrade: command_line.Spangrade) -> None:
    some = [
        Span(f"{trace:032x}", f"{number:016x}", None, "span", "INTERNAL", 1, 2, attributes=attributes)
        for trace, listed in enumerate(HOSTILE.values(), 1)
        for number, attributes in enumerate(listed, 1)
    ]
    scoped = [
        span._replace(
            scope_name="logfire" if "request_data" in span.attributes
            else "gcp.vertex.agent" if "gcp.vertex.agent.tool_call_args" in span.attributes
            else "openinference.instrumentation.langchain"
        )
        for span in some
    ]  # fmt: skip
    found = check_commands(spangrade, scoped)
    assert found.isdisjoint({"unreadable_spans", "not_assembled"})


@pytest.mark.exhaustive
@settings(max_examples=EXAMPLES // 20)
@given(some=st.lists(spans(), min_size=1, max_size=4))
def test_every_command_works_on_any_spans(some: list[Span], spangrade: command_line.Spangrade) -> None:
    found = check_commands(spangrade, some)
    assert found.isdisjoint({"unreadable_spans", "not_assembled"})
