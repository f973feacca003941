"""LiveKit's agents: a voice session is one trace, in which each `agent_turn` follows a message of the user.

The conventions are followed but for the messages of a turn and the results of tools, which newer versions
mark as personal (`lk.pii.*`). `update_agent` hands over; the agent that then starts may not have a turn of
its own.

https://docs.livekit.io/agents/observability/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans import run_io
from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import json_text, text
from spangrade.tracer.span import LogRecord, Span


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Read a span by the conventions, and by LiveKit's own attributes what they lack."""
    attributes = with_events(span, logs)
    observation = genai.read_attributes(span, attributes)
    label = text(attributes.get("lk.agent_label"))
    if observation.kind == "tool":
        return observation._replace(**_tool(observation, attributes))
    if span.name == "agent_turn":
        return observation._replace(
            user_input=_own(attributes, "user_input") or observation.user_input,
            response=_own(attributes, "response.text") or observation.response,
        )
    if span.name == "update_agent" and label:
        previous = text(attributes.get("lk.previous_agent_label"))
        return observation._replace(kind="handoff", agent=previous, handoff_to=label)
    if span.name == "start_agent_activity" and label:
        return observation._replace(kind="agent", name=label, agent=label)
    return observation


def _tool(observation: Reading, attributes: Mapping[str, Any]) -> dict[str, Any]:
    result = _own(attributes, "function_tool.output")
    is_error = attributes.get("lk.function_tool.is_error") is True
    changes: dict[str, Any] = {"failed": observation.failed or is_error}
    if result is not None and observation.result is None:
        changes["result"] = json_text(run_io.python_value(result))
    if is_error:
        changes["error"] = result or observation.error
    return changes


def _own(attributes: Mapping[str, Any], name: str) -> str | None:
    """Return the text of an attribute of LiveKit's, marked as personal or not."""
    return text(attributes.get(f"lk.pii.{name}")) or text(attributes.get(f"lk.{name}"))


DIALECT = Dialect(
    name="livekit",
    signs=Signs(scopes=frozenset({"livekit-agents"})),
    read=read,
    before=("openinference",),
    advice=Advice(
        name="LiveKit",
        content="keep transcripts in the session's recording options: session.start(record=True)",
        conversation='put session.id into set_tracer_provider(provider, metadata={"session.id": …})',
        model_calls="use LiveKit's own model nodes: a node that you override records no llm_request",
    ),
)
