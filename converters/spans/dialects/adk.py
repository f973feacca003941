"""Google's Agent Development Kit, 1.14 to 2.x.

Before 2.0 a call of a model is `call_llm` (with the whole request and response as JSON) around
`generate_content`; tools and sub-agents may be under either. `invocation` is one user message. The usage
attributes leave reasoning out of the output and prompts of tools out of the input: the response's
`usage_metadata` has both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.declarations import declared_tools, instructions
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.gemini_usage import gemini_usage
from spangrade.converters.spans.messages import code_executions, read_exchange
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import count, either, json_object, json_text, text
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE
from spangrade.tracer.span import LogRecord, Span

_SCOPE = "gcp.vertex.agent"
_UNREADABLE = frozenset({"N/A", "<not serializable>", '"<not serializable>"'})


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Read a span by the conventions, then by ADK's own attributes."""
    attributes = with_events(span, logs)
    observation = genai.read_attributes(span, attributes)
    changes: dict[str, Any] = {}
    if observation.conversation_id is None:
        changes["conversation_id"] = text(attributes.get("gcp.vertex.agent.session_id"))
    if observation.kind == "tool":
        changes |= _tool(observation, attributes)
    elif observation.kind == "llm" or span.name == "call_llm":
        changes |= _llm(observation, attributes)
    elif span.name == "invocation":
        changes["kind"] = "workflow"
    elif span.name.startswith("agent_run ["):  # before 1.15
        name = span.name[len("agent_run [") : -1]
        changes |= {"kind": "agent", "name": name, "agent": name}
    return observation._replace(**changes) if changes else observation


def _tool(observation: Reading, attributes: Mapping[str, Any]) -> dict[str, Any]:
    arguments = attributes.get("gcp.vertex.agent.tool_call_args")
    result = attributes.get("gcp.vertex.agent.tool_response")
    if arguments == "{}" and result == "{}":  # written if content is not captured
        return {}
    return {
        "arguments": observation.arguments or _readable(arguments),
        "result": observation.result or _readable(result),
    }


def _readable(value: Any) -> str | None:
    return None if text(value) in _UNREADABLE else json_text(value)


def _llm(observation: Reading, attributes: Mapping[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "kind": "llm",
        "call_key": text(attributes.get("gcp.vertex.agent.event_id")) or observation.call_key,
    }
    if observation.provider in {None, _SCOPE, "gemini"} and (observation.model or "").startswith("gemini"):
        changes["provider"] = "gcp.gemini"
    if observation.reasoning_tokens is None:
        reasoning = count(attributes.get("gen_ai.usage.experimental.reasoning_tokens"))
        if reasoning is not None and observation.output_tokens is not None:
            changes["reasoning_tokens"] = reasoning
            changes["output_tokens"] = observation.output_tokens + reasoning
    request = json_object(attributes.get("gcp.vertex.agent.llm_request"))
    response = json_object(attributes.get("gcp.vertex.agent.llm_response"))
    if request or response:
        changes |= read_exchange(request.get("contents"), response.get("content"))._asdict()
    if isinstance(config := request.get("config"), dict):
        given = either(config, "system_instruction")
        changes["system_instructions"] = instructions(given) or observation.system_instructions
        changes["tool_declarations"] = declared_tools(config.get("tools")) or observation.tool_declarations
    if response:
        changes |= _response(response)
    return changes


def _response(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a whole response records: what is not in it did not happen."""
    grounding, usage = either(response, "grounding_metadata"), either(response, "usage_metadata")
    chunks = either(grounding, "grounding_chunks")
    changes: dict[str, Any] = {
        "grounding_chunks": len(chunks) if isinstance(chunks, list) else 0,
        "code_executions": code_executions(response.get("content")),
    }
    if isinstance(usage, dict):
        tokens = gemini_usage(usage)._asdict()
        changes |= {name: number for name, number in tokens.items() if number is not None}
    return changes


DIALECT = Dialect(
    name="adk",
    signs=Signs(scopes=frozenset({_SCOPE}), attributes=frozenset({"gen_ai.system"})),
    read=read,
    only_if=lambda span: span.scope_name == _SCOPE or span.attributes.get("gen_ai.system") == _SCOPE,
    before=("openinference",),
    advice=Advice(
        name="ADK",
        content=f"set {CAPTURE_CONTENT_VARIABLE}=SPAN_AND_EVENT, and do not set "
        "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false",
        state="import the sessions of ADK's session service too (GET /apps/APP/users/USER/sessions/ID), or "
        "call spangrade.set_state()",
    ),
)
