"""Spring AI: a chat client's run and the calls of tools; model calls follow the conventions.

Written from the documentation alone. Prompts and completions are not on the spans.

https://docs.spring.io/spring-ai/reference/observability/index.html
"""

from __future__ import annotations

from collections.abc import Sequence

from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import json_text, text
from spangrade.tracer.span import LogRecord, Span

_KIND = "spring.ai.kind"


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Read a span by its kind, and by the conventions what else it has."""
    attributes = span.attributes
    observation = genai.read_attributes(span, with_events(span, logs))
    conversation = text(attributes.get("spring.ai.chat.client.conversation.id"))
    observation = observation._replace(conversation_id=conversation or observation.conversation_id)
    kind = text(attributes.get(_KIND))
    name = text(attributes.get("spring.ai.tool.definition.name"))
    if kind == "tool_call" and name:
        return observation._replace(
            kind="tool",
            name=name,
            arguments=json_text(attributes.get("spring.ai.tool.call.arguments")),
            result=json_text(attributes.get("spring.ai.tool.call.result")),
        )
    return observation._replace(kind="workflow") if kind == "chat_client" else observation


DIALECT = Dialect(
    name="spring-ai",
    signs=Signs(attributes=frozenset({_KIND})),
    read=read,
    advice=Advice(
        name="Spring AI",
        content="set spring.ai.tools.observations.include-content=true; messages are not on its spans",
        conversation="use a chat memory advisor with ChatMemory.CONVERSATION_ID",
        agents="it names no agents: record gen_ai.agent.name on a span around each agent's run",
        model_calls="add spring-boot-starter-actuator, micrometer-tracing-bridge-otel and an OTLP exporter",
    ),
)
