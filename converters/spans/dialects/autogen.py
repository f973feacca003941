"""AutoGen's runtime: each message between agents is a span of its own trace, with the message as JSON.

A team's manager receives what its agents say: the user's message that starts a turn, the calls that a model
requested, their results, and answers. A model's own span does not exist, but its usage stands on the
message that it made. The spans of agents and tools follow the conventions, without content.

https://microsoft.github.io/autogen/stable/user-guide/agentchat-user-guide/tracing.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans.dialect import STREAMED, Advice, Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.observation import (
    MessageCall,
    MessageExchange,
    ModelCall,
    Observation,
    RunSpan,
    Structure,
    TokenCounts,
    ToolResult,
    TurnSpan,
    changed,
)
from spangrade.converters.spans.parts import with_mark
from spangrade.converters.spans.values import arguments_in, count, json_object, json_text, objects, text
from spangrade.tracer.span import LogRecord, Span

# A team's agents are named NAME_ID after it.
_TEAM = re.compile(r"_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$")


def read(span: Span, logs: Sequence[LogRecord]) -> Observation:  # noqa: ARG001 (AutoGen has none)
    """Read a span by the message that an agent or the team's manager receives in it."""
    attributes = span.attributes
    recipient = text(attributes.get("recipient_agent_type"))
    team = _TEAM.search(recipient) if recipient else None
    base = genai.structure(span)
    if not span.name.startswith("autogen process ") or team is None:
        return base
    base = changed(base, conversation_id=team[1])
    content = json_object(attributes.get("message"))
    if "sender_agent_type" not in attributes and (started := objects(content.get("messages"))):
        said = [m.get("content") for m in started if m.get("source") == "user"]
        texts = [one for one in said if isinstance(one, str)]
        return TurnSpan(*base, exchange=MessageExchange("\n".join(texts))) if texts else base
    if message := json_object(content.get("message")):
        return _message(base, message)
    inner = [_called(one) for one in objects(json_object(content.get("response")).get("inner_messages"))]
    requested = tuple(call for calls, _ in inner for call in calls)
    results = tuple(result for _, results in inner for result in results)
    if requested or results:  # an answer repeats how it was made
        exchange = MessageExchange(continues=True, tool_results=results, repeated_calls=requested)
        return RunSpan(*base, exchange=exchange)
    # An agent's turn to speak: what it does belongs to the turn that the user began.
    return base if content else RunSpan(*base, exchange=MessageExchange(continues=True))


def _result(one: Mapping[str, Any]) -> ToolResult:
    name, call_id = text(one.get("name")), text(one.get("call_id"))
    return with_mark(ToolResult(name, call_id, json_text(one.get("content"))), one)


def _called(message: Mapping[str, Any]) -> tuple[tuple[MessageCall, ...], tuple[ToolResult, ...]]:
    """Return the calls that a message requests, and the results that it has; a summary of calls has both."""
    content = objects(message.get("content"))
    executed = message.get("type") == "ToolCallExecutionEvent"
    requested = [*objects(message.get("tool_calls")), *([] if executed else content)]
    results = [*objects(message.get("results")), *(content if executed else [])]
    calls = (
        MessageCall(text(call.get("name")), text(call.get("id")), arguments_in(call)) for call in requested
    )
    return tuple(calls), tuple(map(_result, results))


def _message(base: Structure, message: Mapping[str, Any]) -> Observation:
    type_, usage = message.get("type"), json_object(message.get("models_usage"))
    calls, results = _called(message)
    response = text(message.get("content"))
    base = base._replace(agent=text(message.get("source")))
    if type_ == "ToolCallSummaryMessage" or (results and not usage):
        reply = response if type_ == "ToolCallSummaryMessage" else None
        said = MessageExchange(continues=True, response=reply, tool_results=results, repeated_calls=calls)
        return RunSpan(*base, exchange=said)
    if not usage and type_ != "ToolCallRequestEvent":
        return base
    return ModelCall(
        *base,
        exchange=MessageExchange(continues=True, response=response, tool_calls=calls),
        tokens=TokenCounts(count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))),
        call_key=text(message.get("id")),
    )


DIALECT = Dialect(
    name="autogen",
    signs=Signs(scope_prefixes=("autogen ",)),
    read=read,
    advice=Advice(
        name="AutoGen",
        content="unset AUTOGEN_DISABLE_RUNTIME_TRACING",
        model_calls="unset AUTOGEN_DISABLE_RUNTIME_TRACING: the runtime's messages have the model's usage",
        tokens=STREAMED,
    ),
)
