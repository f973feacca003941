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

from spangrade.converters.spans.advice import STREAMED, Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.observation import MessageCall, ToolResult
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import count, json_object, json_text, objects, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

# A team's agents are named NAME_ID after it.
_TEAM = re.compile(r"_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$")


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:  # noqa: ARG001 (AutoGen has none)
    """Read a span by the message that an agent or the team's manager receives in it."""
    attributes = span.attributes
    observation = genai.read_attributes(span, {semconv.OPERATION_NAME: genai.NO_STEP})
    recipient = text(attributes.get("recipient_agent_type"))
    team = _TEAM.search(recipient) if recipient else None
    if not span.name.startswith("autogen process ") or team is None:
        return observation
    observation = observation._replace(conversation_id=team[1])
    content = json_object(attributes.get("message"))
    if "sender_agent_type" not in attributes and (started := objects(content.get("messages"))):
        said = [m.get("content") for m in started if m.get("source") == "user"]
        texts = [one for one in said if isinstance(one, str)]
        return observation._replace(kind="turn", user_input="\n".join(texts)) if texts else observation
    if message := json_object(content.get("message")):
        return observation._replace(**_message(message))
    # An agent's turn to speak: what it does belongs to the turn that the user began.
    return observation if content else observation._replace(kind="workflow", continues=True)


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    source, content = text(message.get("source")), message.get("content")
    if message.get("type") == "ToolCallExecutionEvent":
        results = tuple(map(_result, objects(content)))
        return {"kind": "workflow", "continues": True, "tool_results": results}
    usage = json_object(message.get("models_usage"))
    if not usage:
        return {}
    return {
        "kind": "llm",
        "agent": source,
        "continues": True,
        "call_key": text(message.get("id")),
        "response": text(content),
        "tool_calls": tuple(map(_call, objects(content))),
        "input_tokens": count(usage.get("prompt_tokens")),
        "output_tokens": count(usage.get("completion_tokens")),
    }


def _call(call: Mapping[str, Any]) -> MessageCall:
    return MessageCall(text(call.get("name")), text(call.get("id")), json_text(call.get("arguments")))


def _result(result: Mapping[str, Any]) -> ToolResult:
    return ToolResult(text(result.get("name")), text(result.get("call_id")), json_text(result.get("content")))


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
