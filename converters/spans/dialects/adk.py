"""Google's Agent Development Kit, 1.14 to 2.x.

Before 2.0 a call of a model is `call_llm` (with the whole request and response as JSON) around
`generate_content`; tools and sub-agents may hang under either. `invocation` is one user message. Usage
there leaves reasoning out of the output and tool-use prompts out of the input: both are in the response's
own `usage_metadata`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.messages import code_executions, exchange
from spangrade.converters.spans.observation import Observation, count, json_text, json_value, text
from spangrade.tracer.span import LogRecord, Span

_SCOPE = "gcp.vertex.agent"
_UNREADABLE = frozenset({"N/A", "<not serializable>", '"<not serializable>"'})


class ADK:
    """Spans of the scope `gcp.vertex.agent`, or of others that carry its attributes."""

    def claims(self, span: Span, /) -> bool:
        """Claim by scope, or by the system that ADK names on its spans."""
        return span.scope_name == _SCOPE or span.attributes.get("gen_ai.system") == _SCOPE

    def read(self, span: Span, logs: Sequence[LogRecord]) -> Observation:
        """Read a span by the conventions, then by ADK's own attributes."""
        a = with_events(span, logs)
        seen = genai.read(span, a)
        changes: dict[str, Any] = {}
        if seen.conversation_id is None:
            changes["conversation_id"] = text(a.get("gcp.vertex.agent.session_id"))
        if seen.kind == "tool":
            changes |= _tool(seen, a)
        elif seen.kind == "llm" or span.name == "call_llm":
            changes |= _llm(seen, a)
        elif span.name == "invocation":
            changes["kind"] = "workflow"
        elif span.name.startswith("agent_run ["):  # before 1.15
            name = span.name[len("agent_run [") : -1]
            changes |= {"kind": "agent", "name": name, "agent": name}
        return seen._replace(**changes) if changes else seen


DIALECT = ADK()


def _tool(seen: Observation, a: Mapping[str, Any]) -> dict[str, Any]:
    arguments, result = a.get("gcp.vertex.agent.tool_call_args"), a.get("gcp.vertex.agent.tool_response")
    if arguments == "{}" and result == "{}":  # what is written where content is not captured
        return {}
    return {
        "arguments": seen.arguments or (None if arguments in _UNREADABLE else json_text(arguments)),
        "result": seen.result or (None if result in _UNREADABLE else json_text(result)),
    }


def _llm(seen: Observation, a: Mapping[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "kind": "llm",
        "call_key": text(a.get("gcp.vertex.agent.event_id")) or seen.call_key,
    }
    if seen.provider in {None, _SCOPE, "gemini"}:
        changes["provider"] = "gcp.gemini" if (seen.model or "").startswith("gemini") else seen.provider
    if seen.reasoning_tokens is None:
        reasoning = count(a.get("gen_ai.usage.experimental.reasoning_tokens"))
        if reasoning is not None and seen.output_tokens is not None:
            changes |= {"reasoning_tokens": reasoning, "output_tokens": seen.output_tokens + reasoning}
    request, response = _document(a, "llm_request"), _document(a, "llm_response")
    if request or response:
        said = exchange(
            request.get("contents"),
            response.get("content"),
            injected=genai.is_context,
        )
        changes |= {
            "user_input": said.user_input,
            "continues": said.continues,
            "response": said.response,
            "tool_calls": said.tool_calls,
            "tool_results": said.tool_results,
        }
    if response:  # the whole of it: what is not in it did not happen
        grounding = response.get("grounding_metadata")
        chunks = grounding.get("grounding_chunks") if isinstance(grounding, dict) else None
        changes["grounding_chunks"] = len(chunks) if isinstance(chunks, list) else 0
        changes["code_executions"] = code_executions(response.get("content"))
    usage = response.get("usage_metadata")
    if isinstance(usage, dict):
        changes |= _usage(usage)
    return changes


def _usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return tokens by the conventions from Gemini's `usage_metadata`.

    There the prompt includes what was cached, but not the prompts of built-in tools; the candidates do not
    include the thoughts.
    """
    prompt, candidates = count(usage.get("prompt_token_count")), count(usage.get("candidates_token_count"))
    thoughts, tools = (
        count(usage.get("thoughts_token_count")),
        count(usage.get("tool_use_prompt_token_count")),
    )
    found = {
        "input_tokens": None if prompt is None else prompt + (tools or 0),
        "output_tokens": None
        if candidates is None and thoughts is None
        else (candidates or 0) + (thoughts or 0),
        "cached_input_tokens": count(usage.get("cached_content_token_count")),
        "reasoning_tokens": thoughts,
    }
    return {name: value for name, value in found.items() if value is not None}


def _document(a: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = json_value(a.get(f"gcp.vertex.agent.{name}"))
    return value if isinstance(value, dict) else {}
