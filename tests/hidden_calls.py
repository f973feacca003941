"""The matrix of hidden calls: ways to hide a call, gates that it breaks, and agents that hide it.

No cell may be a pass. Without a hidden call, no cell is inconclusive where calls are recorded. A way, a gate
or a door more is a row more; a cell that cannot exist says why, beside its door.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from otlp_sessions import Call, Said, recorded_sessions

import spangrade
from spangrade import Gates, RunOptions

LOOK = {"tool_name": "look", "input_arguments": {"x": 1}}
CALLS_ALONE = Gates(no_reference=("agents_evaluated",))  # which agents took part is not the question here
NONE = "nothing"  # the way of the mirror
OTHER_PROVIDER = TracerProvider()


class Gate(NamedTuple):
    """A gate: the references of its question, a metric that it asks for, and the tool that breaks it.

    The agent looks first, unless no call is expected.
    """

    references: Mapping[str, Any]
    metric: str = ""
    hidden: str = "rm"
    looks: bool = True


GATES = {
    "forbidden": Gate({"forbidden_tools": ["rm"]}),
    "at most": Gate({"at_most": {"rm": 0}}),
    "at most of the same tool": Gate({"at_most": {"look": 1}}, hidden="look"),
    "no further calls": Gate({"reference_tool_interactions": [LOOK], "no_further_calls": True}),
    "no further calls of the same tool": Gate(
        {"reference_tool_interactions": [LOOK], "no_further_calls": ["look"]}, hidden="look"
    ),
    "before": Gate({"before": [["approve", "rm"]]}),
    "no calls": Gate({"reference_tool_interactions": []}, looks=False),
    "exact list": Gate({"reference_tool_interactions": [LOOK]}, "tools:exact>=1"),
    "exact list and the same tool": Gate(
        {"reference_tool_interactions": [LOOK]}, "tools:exact>=1", hidden="look"
    ),
    "trajectory": Gate({"reference_trajectory": ["look"]}),
    "declared": Gate({}, "undeclared_calls<=0"),
}
QUESTIONS = {
    name: {
        "id": name,
        "user_inputs": [name],
        "agents_evaluated": ["bot"],
        "reference_data": dict(gate.references),
    }
    for name, gate in GATES.items()
}
DECLARED = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]


@spangrade.tool
def look(x: int = 1) -> str:
    """Look."""
    return "seen"


@spangrade.tool
def rm(x: int = 1) -> str:
    """Remove."""
    return "gone"


TOOLS: Mapping[str, Callable[..., str]] = {"look": look, "rm": rm}


def _thread(call: Callable[[], object], *, context: bool, waits: bool) -> None:
    target = contextvars.copy_context().run if context else lambda function: function()

    def later() -> None:
        threading.Event().wait(0.1)
        call()

    thread = threading.Thread(target=target, args=(later if waits else call,), daemon=True)
    thread.start()
    if not waits:
        thread.join()


def _in_pool(call: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).result()


def _of_other_provider(tool: str) -> None:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    OTHER_PROVIDER.get_tracer("other").start_span(f"execute_tool {tool}", attributes=attributes).end()


@spangrade.agent("bot")
def _pieces(tool: str) -> Generator[str]:
    try:
        yield "ok"
        yield "and more"
    finally:
        TOOLS[tool](666)


def _plain_pieces(tool: str) -> Generator[str]:
    try:
        yield "ok"
        yield "and more"
    finally:
        TOOLS[tool](666)


async def _async_pieces(tool: str) -> AsyncGenerator[str]:
    try:
        yield "ok"
        yield "and more"
    finally:
        TOOLS[tool](666)


def _closed_later(tool: str) -> None:
    stream = _plain_pieces(tool)
    next(stream)
    _thread(stream.close, context=False, waits=True)


def _left_to_the_loop(tool: str) -> None:
    """Leave an async stream after its first piece: the event loop closes it, the collector without one."""
    with contextlib.suppress(StopIteration):
        _async_pieces(tool).__anext__().send(None)


# What an agent in this process does, to hide a call of a tool.
#
# A stream that is left is a way of these doors alone. Servers' answers are read whole. Spans and messages
# have what ran while a stream was closed as any other call; what a piece that never came would have asked
# for, no agent ran. The messages of a bus are spans: see SPANS.
WAYS: Mapping[str, Callable[[str], object]] = {
    NONE: lambda tool: None,
    "a thread with the context": lambda tool: _thread(lambda: TOOLS[tool](666), context=True, waits=False),
    "a thread without the context": lambda tool: _thread(
        lambda: TOOLS[tool](666), context=False, waits=False
    ),
    "a pool": lambda tool: _in_pool(lambda: TOOLS[tool](666)),
    "after the reply": lambda tool: _thread(lambda: TOOLS[tool](666), context=True, waits=True),
    "after the reply without the context": lambda tool: _thread(
        lambda: TOOLS[tool](666), context=False, waits=True
    ),
    "a child process": lambda tool: subprocess.run([sys.executable, "-c", "pass"], check=True),
    "another tracer provider": _of_other_provider,
    "a span that never ends": lambda tool: spangrade.tool(tool).start(),
    "a call that failed": lambda tool: _failing(tool),
    "a stream that is left": lambda tool: next(_pieces(tool)),
    "a stream that is closed after the reply": _closed_later,
    "an async stream that is left": _left_to_the_loop,
}


def _failing(tool: str) -> None:
    with spangrade.tool(tool) as call:
        call.failed("no rights")


def act(gate: str, way: str) -> None:
    """Do what an agent does in a turn: declare its tools, look, and hide a call."""
    with spangrade.agent("bot"):
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.tool.definitions": json.dumps(DECLARED),
        }
        trace.get_tracer("model").start_span("chat m", attributes=attributes).end()
        if GATES[gate].looks:
            look(1)
        WAYS[way](GATES[gate].hidden)


def verdicts(
    db: spangrade.Database, run: spangrade.Run | None, gates: Iterable[str] = GATES
) -> dict[str, tuple[str, str]]:
    """Return the verdict of each gate on its session, and why; `run` graded the references."""
    asked = [QUESTIONS[name] for name in gates]
    of_references = run or db.grade(asked, gates=CALLS_ALONE)
    by_metric = {
        metric: db.grade(
            [one for one in asked if GATES[str(one["id"])].metric == metric],
            gates=replace(CALLS_ALONE, metrics=(metric,)),
        )
        for metric in {GATES[name].metric for name in gates} - {""}
    }
    found = {}
    for name in gates:
        of = by_metric.get(GATES[name].metric, of_references)
        (grade,) = (one for one in of.sessions if one.question_id == name)
        found[name] = grade.verdict.value, grade.reason
    return found


def driven(db: spangrade.Database, agent: Any, gates: Iterable[str] = GATES) -> dict[str, tuple[str, str]]:
    """Return the verdicts on an agent that `run` asks."""
    options = RunOptions(agent_name="bot", concurrency=len(GATES))
    run = db.run(agent, [QUESTIONS[name] for name in gates], gates=CALLS_ALONE, options=options)
    return verdicts(db, run, gates)


def passes(found: Mapping[str, tuple[str, str]]) -> list[str]:
    """Return the gates that passed, or that are inconclusive without a reason."""
    return [name for name, (verdict, why) in found.items() if verdict == "passed" or not why]


def not_passed(found: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the gates that did not pass."""
    return {name: one for name, one in found.items() if one[0] != "passed"}


def otlp(way: str) -> dict[str, Any]:
    """Return a session for each gate as OTLP JSON, with a hidden call."""
    sessions = [
        (name, [Said(name, "ok", [Call("look", {"x": 1}, "seen")] if gate.looks else [])])
        for name, gate in GATES.items()
    ]
    recorded = recorded_sessions(sessions, agent="bot")
    (scope,) = recorded["resourceSpans"][0]["scopeSpans"]
    for name, gate in GATES.items():
        spans = [span for span in scope["spans"] if values_of(span)["gen_ai.conversation.id"] == name]
        root, chat = spans[0], spans[-1]
        set_value(chat, "gen_ai.tool.definitions", json.dumps(DECLARED))
        scope["spans"] += SPANS[way](root, chat, gate.hidden) or []
    return recorded


def values_of(span: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


def set_value(span: dict[str, Any], key: str, value: str | None) -> None:
    span["attributes"] = [one for one in span["attributes"] if one["key"] != key]
    if value is not None:
        span["attributes"].append({"key": key, "value": {"stringValue": value}})


def _with_part(chat: dict[str, Any], *parts: dict[str, Any], **beside: Any) -> None:
    (message,) = json.loads(values_of(chat)["gen_ai.output.messages"])
    message["parts"] += parts
    set_value(chat, "gen_ai.output.messages", json.dumps([message | beside]))


def _child(parent: dict[str, Any], name: str, **more: Any) -> dict[str, Any]:
    span_id = f"{int(parent['spanId'], 16) ^ 1:016x}"
    common = [one for one in parent["attributes"] if one["key"] == "gen_ai.conversation.id"]
    return {
        **parent,
        "spanId": span_id,
        "parentSpanId": parent["spanId"],
        "name": name,
        "attributes": common,
    } | more


def _tool(root: dict[str, Any], tool: str) -> dict[str, Any]:
    span = _child(root, f"execute_tool {tool}")
    set_value(span, "gen_ai.operation.name", "execute_tool")
    set_value(span, "gen_ai.tool.name", tool)
    return span


def _without_name(span: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's span without the attribute of its name: the name of the span still has it."""
    set_value(span, "gen_ai.tool.name", None)
    return span | {"droppedAttributesCount": 1}


def _raw(chat: dict[str, Any], tool: str) -> None:
    """Let a model call have the provider's payload in place of messages, as ADK records it."""
    set_value(chat, "gen_ai.output.messages", None)
    call = {"id": "c9", "name": tool, "args": {"x": 666}}
    content = {"role": "model", "parts": [{"text": "ok"}, {"function_call": call}]}
    set_value(chat, "gcp.vertex.agent.llm_response", json.dumps({"content": content}))
    set_value(chat, "gen_ai.system", "gcp.vertex.agent")


def _of_bus(root: dict[str, Any], chat: dict[str, Any], tool: str) -> dict[str, Any]:
    """Return a message between agents, in a trace of its own, with a request that no model call has."""
    trace_id = f"{int(root['traceId'], 16) ^ 1:032x}"
    attributes = [dict(one) for one in chat["attributes"]]
    span = _child(root, "process manager", traceId=trace_id, parentSpanId="", attributes=attributes)
    requested = {"type": "tool_call", "id": "b1", "name": tool, "arguments": {"x": 666}}
    set_value(span, "gen_ai.output.messages", json.dumps([{"role": "assistant", "parts": [requested]}]))
    set_value(span, "messaging.operation", "process")
    return span


def _in_history(chat: dict[str, Any], *said: dict[str, Any]) -> None:
    """Let a model call receive messages of the turn, that nothing else records."""
    received = json.loads(values_of(chat)["gen_ai.input.messages"])
    set_value(chat, "gen_ai.input.messages", json.dumps([*received, *said]))


def _asked(tool: str) -> dict[str, Any]:
    requested = {"type": "tool_call", "id": "h1", "name": tool, "arguments": {"x": 666}}
    return {"role": "assistant", "parts": [requested]}


def _answered(**more: Any) -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": "h1", "response": "gone", **more}]}


# What a recording has of a hidden call: it changes the spans of a turn, and returns further ones.
SPANS: dict[str, Callable[[dict[str, Any], dict[str, Any], str], list[dict[str, Any]] | None]] = {
    NONE: lambda root, chat, tool: None,
    "a span": lambda root, chat, tool: [_tool(root, tool)],
    "a part of an unknown type": lambda root, chat, tool: _with_part(
        chat, {"type": "acme_step", "ran": tool}
    ),
    "a call of the provider's": lambda root, chat, tool: _with_part(
        chat, {"type": "server_tool_use", "id": "s1", "name": tool, "input": {"x": 666}}
    ),
    "a second id": lambda root, chat, tool: _with_part(
        chat,
        {"type": "tool_call", "id": "call_0", "name": "look", "arguments": {"x": 1}},
        {"type": "tool_call", "id": "call_0", "name": tool, "arguments": {"x": 666}},
    ),
    "a span that was cut": lambda root, chat, tool: [_child(root, "GET", parentSpanId="00000000000000aa")],
    "a sampled span": lambda root, chat, tool: root.update(traceState="ot=th:8"),
    "a dropped attribute": lambda root, chat, tool: [_without_name(_tool(root, tool))],
    "a raw payload": lambda root, chat, tool: _raw(chat, tool),
    "a call beside the content": lambda root, chat, tool: _with_part(
        chat, invalid_tool_calls=[{"id": "s1", "name": tool, "args": '{"x": 666'}]
    ),
    # The span of the model call that requested it was dropped: a later one has its history, or the end of it.
    "a history": lambda root, chat, tool: _in_history(chat, _asked(tool), _answered()),
    "a request in a history": lambda root, chat, tool: _in_history(chat, _asked(tool)),
    "a result with a name": lambda root, chat, tool: _in_history(chat, _answered(name=tool)),
    "a result without a name": lambda root, chat, tool: _in_history(chat, _answered()),
    # Of imported spans and lakes alone: a bus in this process is a provider of spans like another; answers
    # and messages have no spans.
    "a message of a bus": lambda root, chat, tool: [_of_bus(root, chat, tool)],
}


TEAM = "a8765604-2f20-43c2-8bd6-{:012d}"


def _event(type_: str, tool: str, call_id: str = "b1", x: int = 666, **more: Any) -> dict[str, Any]:
    """Return a message of AutoGen's with a call, or with its result."""
    call = {"id": call_id, "name": tool, "arguments": json.dumps({"x": x})}
    result = {"call_id": call_id, "name": tool, "content": "done", "is_error": False}
    content: Any = {"ToolCallRequestEvent": [call], "ToolCallExecutionEvent": [result]}.get(type_, "ok")
    if type_ == "ToolCallSummaryMessage":
        more |= {"tool_calls": [call], "results": [result]}
    usage = {"prompt_tokens": 1, "completion_tokens": 1} if type_ == "ToolCallRequestEvent" else None
    return {"type": type_, "source": "bot", "models_usage": usage, "content": content, **more}


# What AutoGen's bus has of a hidden call: messages of a team's agent to its manager.
BUS: Mapping[str, Callable[[str], list[dict[str, Any]]]] = {
    NONE: lambda tool: [],
    "a request and a result": lambda tool: [
        {"message": _event("ToolCallRequestEvent", tool)},
        {"message": _event("ToolCallExecutionEvent", tool)},
    ],
    "a request": lambda tool: [{"message": _event("ToolCallRequestEvent", tool)}],
    "a result": lambda tool: [{"message": _event("ToolCallExecutionEvent", tool)}],
    "a summary": lambda tool: [{"message": _event("ToolCallSummaryMessage", tool)}],
    "inner messages": lambda tool: [
        _response(_event("ToolCallRequestEvent", tool), _event("ToolCallExecutionEvent", tool))
    ],
    "an inner result": lambda tool: [_response(_event("ToolCallExecutionEvent", tool))],
}


def _response(*inner: dict[str, Any]) -> dict[str, Any]:
    return {
        "response": {"chat_message": _event("TextMessage", ""), "inner_messages": list(inner)},
        "name": "bot",
    }


def bus(way: str) -> dict[str, Any]:
    """Return a session for each gate as AutoGen's runtime records it, with a hidden call."""
    spans: list[dict[str, Any]] = []
    for number, (name, gate) in enumerate(GATES.items(), 1):
        team = TEAM.format(number)
        sent: list[dict[str, Any]] = [
            {"messages": [{"source": "user", "content": name, "type": "TextMessage"}]}
        ]
        if gate.looks:
            looked = (_event(f"ToolCall{one}Event", "look", "b0", 1) for one in ("Request", "Execution"))
            sent += [{"message": one} for one in looked]
        said = _event("TextMessage", "") | {"models_usage": {"prompt_tokens": 1, "completion_tokens": 1}}
        for at, message in enumerate([*sent, *BUS[way](gate.hidden), {"message": said}]):
            sender = {"sender_agent_type": f"bot_{team}"} if at else {}
            values = {"recipient_agent_type": f"Manager_{team}", "message": json.dumps(message), **sender}
            start_ns = 1_767_258_000_000_000_000 + number * 10**12 + at * 10**7
            spans.append(
                {
                    "traceId": f"{number:030x}{at + 1:02x}",
                    "spanId": f"{number:014x}{at + 1:02x}",
                    "name": f"autogen process Manager_{team}",
                    "startTimeUnixNano": str(start_ns),
                    "endTimeUnixNano": str(start_ns + 10**6),
                    "attributes": [
                        {"key": key, "value": {"stringValue": value}} for key, value in values.items()
                    ],
                }
            )
    scope = {"name": "autogen SingleThreadedAgentRuntime"}
    return {"resourceSpans": [{"scopeSpans": [{"scope": scope, "spans": spans}]}]}


# What the messages of a turn have of a hidden call, beside the visible one and its result.
MESSAGES: dict[str, Callable[[str], list[dict[str, Any]]]] = {
    NONE: lambda tool: [],
    "a result": lambda tool: [
        {"role": "assistant", "tool_calls": [_requested("c8", tool)]},
        {"role": "tool", "tool_call_id": "c8", "content": "gone"},
    ],
    "a request": lambda tool: [{"role": "assistant", "tool_calls": [_requested("c8", tool)]}],
    "a part of an unknown type": lambda tool: [
        {"role": "assistant", "content": [{"type": "acme_step", "ran": tool}]}
    ],
    "a call of the provider's": lambda tool: [
        {
            "role": "assistant",
            "content": [{"type": "server_tool_use", "id": "s1", "name": tool, "input": {"x": 666}}],
        }
    ],
    "a result with a name and no request": lambda tool: [{"role": "tool", "name": tool, "content": "gone"}],
    "a result without a name or a request": lambda tool: [
        {"role": "tool", "tool_call_id": "c8", "content": "gone"}
    ],
    "a second call under one id": lambda tool: [
        {"role": "assistant", "tool_calls": [_requested("c9", tool), _requested("c9", tool)]},
        {"role": "tool", "tool_call_id": "c9", "content": "gone"},
    ],
    "a call beside the content": lambda tool: [
        {"role": "assistant", "content": "", "toolCalls": [_requested("c8", tool)]}
    ],
    "a list in the content": lambda tool: [
        {"role": "assistant", "content": [[{"type": "tool_use", "id": "c8", "name": tool, "input": {}}]]}
    ],
    "a content that is a text of parts": lambda tool: [
        {
            "role": "assistant",
            "content": json.dumps([{"type": "tool_use", "id": "c8", "name": tool, "input": {}}]),
        }
    ],
}


def _requested(call_id: str, tool: str, arguments: str = '{"x": 666}') -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}


def messages(way: str) -> Iterable[dict[str, Any]]:
    """Yield a conversation for each gate as chat messages, with a hidden call."""
    for name, gate in GATES.items():
        said: list[dict[str, Any]] = [{"role": "user", "content": name}]
        if gate.looks:
            said.append({"role": "assistant", "tool_calls": [_requested("c1", "look", '{"x": 1}')]})
            said.append({"role": "tool", "tool_call_id": "c1", "content": "seen"})
        said += [*MESSAGES[way](gate.hidden), {"role": "assistant", "content": "ok"}]
        yield {"id": name, "messages": said}
