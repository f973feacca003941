"""Google's Agent Development Kit, 1.14 to 2.x.

Before 2.0 a call of a model is `call_llm` (with the whole request and response as JSON) around
`generate_content`; tools and sub-agents may be under either. `invocation` is one user message. The usage
attributes leave reasoning out of the output and prompts of tools out of the input: the response's
`usage_metadata` has both.
"""

from __future__ import annotations

from typing import Any

from spangrade.converters.spans.dialect import Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.messages import code_executions
from spangrade.converters.spans.observation import Kind, ModelCall, changed
from spangrade.converters.spans.provider_values import gemini_usage
from spangrade.converters.spans.values import count, either, json_object, known, text
from spangrade.tracer import semconv
from spangrade.tracer.frameworks import ADK
from spangrade.tracer.span import Span

_SCOPE = "gcp.vertex.agent"
_UNREADABLE = frozenset({"N/A", "<not serializable>", '"<not serializable>"'})
_REQUEST, _RESPONSE = "gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response"
_AGENT_RUN = "agent_run ["  # before 1.15


def _kind(span: Span, attributes: Attributes) -> Kind | None:
    known = genai.kind_of_span(span, attributes)
    if known in ("tool", "llm"):
        return None
    if span.name == "call_llm":
        return "llm"
    if span.name == "invocation":
        return "workflow"
    return "agent" if span.name.startswith(_AGENT_RUN) else None


def _values(span: Span, attributes: Attributes, kind: Kind | None) -> dict[str, Any]:
    if kind == "agent":
        return {semconv.AGENT_NAME: span.name[len(_AGENT_RUN) : -1]}
    of_tool = {
        semconv.TOOL_CALL_ARGUMENTS: attributes.get("gcp.vertex.agent.tool_call_args"),
        semconv.TOOL_CALL_RESULT: attributes.get("gcp.vertex.agent.tool_response"),
    }
    if all(value == "{}" for value in of_tool.values()):  # written if content is not captured
        of_tool = {}
    own = {name: v for name, v in of_tool.items() if name not in attributes and text(v) not in _UNREADABLE}
    request, response = (json_object(attributes.get(name)) for name in (_REQUEST, _RESPONSE))
    if request or response:
        own[semconv.INPUT_MESSAGES] = request.get("contents")
        own[semconv.OUTPUT_MESSAGES] = [response.get("content")]
    config = json_object(request.get("config"))
    declared, told = config.get("tools"), either(config, "system_instruction")
    return own | known({semconv.TOOL_DEFINITIONS: declared, semconv.SYSTEM_INSTRUCTIONS: told})


def _model_call(call: ModelCall, _: Span, attributes: Attributes) -> ModelCall:
    changes: dict[str, Any] = {"call_key": text(attributes.get("gcp.vertex.agent.event_id")) or call.call_key}
    if call.provider in {None, _SCOPE, "gemini"} and (call.model or "").startswith("gemini"):
        changes["provider"] = "gcp.gemini"
    reasoning = count(attributes.get("gen_ai.usage.experimental.reasoning_tokens"))
    if None not in (reasoning, call.tokens.output_tokens) and call.tokens.reasoning_tokens is None:
        changes["reasoning_tokens"] = reasoning
        changes["output_tokens"] = (call.tokens.output_tokens or 0) + (reasoning or 0)
    if response := json_object(attributes.get(_RESPONSE)):
        changes |= _response(response)
    return changed(call, **changes)


def _response(response: Attributes) -> dict[str, Any]:
    """Return the fields of a whole response: an item that it lacks did not happen."""
    grounding, usage = either(response, "grounding_metadata"), either(response, "usage_metadata")
    chunks = either(grounding, "grounding_chunks")
    changes: dict[str, Any] = {
        "grounding_chunks": len(chunks) if isinstance(chunks, list) else 0,
        "code_executions": code_executions(response.get("content")),
    }
    return changes | known(gemini_usage(usage)._asdict()) if isinstance(usage, dict) else changes


DIALECT = Dialect(
    name="adk",
    signs=Signs(scopes=frozenset({_SCOPE}), attributes=frozenset({"gen_ai.system"})),
    only_if=lambda span: span.scope_name == _SCOPE or span.attributes.get("gen_ai.system") == _SCOPE,
    names={"gcp.vertex.agent.session_id": semconv.CONVERSATION_ID},
    kind=_kind,
    values=_values,
    fixes={"llm": _model_call},
    before=("openinference",),
    advice=Advice(
        name="ADK",
        content=f"set {ADK.settings}, and do not set ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false",
        state="import the sessions of ADK's session service too (GET /apps/APP/users/USER/sessions/ID), or "
        "call spangrade.set_state()",
    ),
)
