"""LiveKit's agents: a voice session is one trace, in which each `agent_turn` follows a message of the user.

The conventions are followed but for the messages of a turn and the results of tools, which newer versions
mark as personal (`lk.pii.*`). `update_agent` hands over; the agent that then starts may not have a turn of
its own.

https://docs.livekit.io/agents/observability/
"""

from __future__ import annotations

from spangrade.converters.spans.dialect import Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.observation import (
    Kind,
    ToolUse,
    changed,
)
from spangrade.converters.spans.values import text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

_LABEL = "lk.agent_label"
_KINDS: dict[str, Kind] = {"update_agent": "handoff", "start_agent_activity": "agent"}


def _values(span: Span, attributes: Attributes, kind: Kind | None) -> dict[str, object]:
    if kind == "agent":
        return {semconv.AGENT_NAME: attributes.get(_LABEL)}
    if span.name != "agent_turn":
        return {}
    said = {semconv.TURN_INPUT: "user_input", semconv.TURN_OUTPUT: "response.text"}
    return {name: _own(attributes, own) for name, own in said.items()}


def _tool(call: ToolUse, _: Span, attributes: Attributes) -> ToolUse:
    if attributes.get("lk.function_tool.is_error") is not True:
        return call
    error = call.failure and call.failure.error
    return changed(call, failed=True, error=_own(attributes, "function_tool.output") or error)


def _own(attributes: Attributes, name: str) -> str | None:
    """Return the text of an attribute of LiveKit's, marked as personal or not."""
    return text(attributes.get(f"lk.pii.{name}")) or text(attributes.get(f"lk.{name}"))


DIALECT = Dialect(
    name="livekit",
    signs=Signs(scopes=frozenset({"livekit-agents"})),
    names={
        "lk.pii.function_tool.output": semconv.TOOL_CALL_RESULT,
        "lk.function_tool.output": semconv.TOOL_CALL_RESULT,
        "lk.previous_agent_label": semconv.HANDOFF_FROM,
        _LABEL: semconv.HANDOFF_TO,
    },
    kind=lambda span, attributes: _KINDS.get(span.name) if text(attributes.get(_LABEL)) else None,
    values=_values,
    fixes={"tool": _tool},
    before=("openinference",),
    advice=Advice(
        name="LiveKit",
        content="keep transcripts in the session's recording options: session.start(record=True)",
        conversation='put session.id into set_tracer_provider(provider, metadata={"session.id": …})',
        model_calls="use LiveKit's own model nodes: a node that you override records no llm_request",
    ),
)
