"""What a recording tells does not change with how it was recorded, and by how many instrumentations."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from recordings import NAMES, records

from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive.build_session import build_session
from spangrade.tracer.span import LogRecord, Span

Records = list[Span | LogRecord]
# Recordings whose spans are read otherwise under another scope: as beside the originals, and not at all.
_OTHERWISE = frozenset({"bedrock_botocore", "llama_index", "mastra_arize"})
_NOT_AT_ALL = frozenset({"adk_schema_v1"})


def facts(some: Records) -> dict[str, Any]:
    """Return what records tell, taken as one session, without where they tell it."""
    logs: dict[tuple[str, str], list[LogRecord]] = defaultdict(list)
    for record in some:
        if isinstance(record, LogRecord):
            logs[record.trace_id or "", record.span_id or ""].append(record)
    observations = observe([record for record in some if isinstance(record, Span)], logs)
    shown = json.loads(json.dumps(build_session("s", "conversation", observations).to_json()))
    keys = ("user_input", "final_response")
    tool_keys = ("turn", "tool_name", "input_arguments", "output", "ok", "error", "call_id", "agent")
    return {
        "turns": [[turn[key] for key in keys] for turn in shown["turns"]],
        "trajectory": [step["name"] for step in shown["trajectory"]],
        "tools": [[tool[key] for key in tool_keys] for tool in shown["tool_interactions"]],
        "errors": [[error["where"], error["message"]] for error in shown["errors"]],
        **{key: shown[key] for key in ("agents", "handoffs", "usage", "models", "state_variables")},
    }


@cache
def plain(name: str) -> dict[str, Any]:
    return facts(records(name))


def changed(name: str, change: Callable[[Span], list[Span]]) -> dict[str, Any]:
    """Return the facts of a recording in which each span is replaced by what `change` makes of it."""
    made: Records = []
    for record in records(name):
        made += [record] if isinstance(record, LogRecord) else change(record)
    return facts(made)


def of_a_web_server(name: str) -> list[Span]:
    times: dict[str, list[int]] = defaultdict(list)
    for record in records(name):
        if isinstance(record, Span):
            times[record.trace_id] += [record.start_ns, record.end_ns]
    attributes = {"http.request.method": "POST", "session.id": "of the web"}
    scope = "opentelemetry.instrumentation.asgi"
    return [
        Span(
            trace_id,
            "f" * 16,
            "e" * 16,
            "POST /chat",
            "SERVER",
            min(at),
            max(at),
            attributes=attributes,
            scope_name=scope,
        )
        for trace_id, at in times.items()
    ]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.short_form("name", 4)
def test_runs_under_a_web_server_or_a_remote_parent_tell_the_same(name: str) -> None:
    def under(parent: str) -> Callable[[Span], list[Span]]:
        return lambda span: [span._replace(parent_span_id=span.parent_span_id or parent)]

    assert changed(name, under("e" * 16)) == plain(name)
    around: Records = list(of_a_web_server(name))
    inside = [
        record if isinstance(record, LogRecord) else under("f" * 16)(record)[0] for record in records(name)
    ]
    assert facts([*around, *inside]) == plain(name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.short_form("name", 2)
def test_json_inside_json_tells_the_same(name: str) -> None:
    def is_json(value: Any) -> bool:
        return isinstance(value, str) and value[:1] in "[{" and value[:2] not in ("[]", "{}", "{'", "")

    def within(span: Span) -> list[Span]:
        attributes = {k: json.dumps(v) if is_json(v) else v for k, v in span.attributes.items()}
        return [span._replace(attributes=attributes)]

    assert changed(name, within) == plain(name)


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        (name, beside)
        for name in NAMES
        for beside in (False, True)
        if name not in (_NOT_AT_ALL | _OTHERWISE if beside else _NOT_AT_ALL)
    ],
)
@pytest.mark.short_form("name", 2)
def test_a_second_instrumentation_of_calls_counts_nothing_twice(name: str, *, beside: bool) -> None:
    def twice(span: Span) -> list[Span]:
        operation = span.attributes.get("gen_ai.operation.name")
        kind = span.attributes.get("openinference.span.kind")
        if operation not in {"chat", "execute_tool"} and kind not in {"LLM", "TOOL"}:
            return [span]
        again = span._replace(
            span_id=f"{int(span.span_id, 16) ^ 0xABC << 40:016x}",
            parent_span_id=span.parent_span_id if beside else span.span_id,
            start_ns=span.start_ns + 10,
            end_ns=max(span.end_ns - 10, span.start_ns + 10),
            scope_name="second.instrumentation",
        )
        return [span, again]

    assert changed(name, twice) == plain(name)
