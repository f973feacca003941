"""Spring AI: a chat client's run and the calls of tools; model calls follow the conventions.

Written from the documentation alone. Prompts and completions are not on the spans.

https://docs.spring.io/spring-ai/reference/observability/index.html
"""

from __future__ import annotations

from spangrade.converters.spans.dialect import Advice, Dialect, Signs, kind_by
from spangrade.tracer import semconv

_KIND = "spring.ai.kind"


DIALECT = Dialect(
    name="spring-ai",
    signs=Signs(attributes=frozenset({_KIND})),
    names={
        "spring.ai.chat.client.conversation.id": semconv.CONVERSATION_ID,
        "spring.ai.tool.definition.name": semconv.TOOL_NAME,
        "spring.ai.tool.call.arguments": semconv.TOOL_CALL_ARGUMENTS,
        "spring.ai.tool.call.result": semconv.TOOL_CALL_RESULT,
    },
    kind=kind_by(_KIND, {"tool_call": "tool", "chat_client": "workflow"}),
    advice=Advice(
        name="Spring AI",
        content="set spring.ai.tools.observations.include-content=true; messages are not on its spans",
        conversation="use a chat memory advisor with ChatMemory.CONVERSATION_ID",
        agents="it names no agents: record gen_ai.agent.name on a span around each agent's run",
        model_calls="add spring-boot-starter-actuator, micrometer-tracing-bridge-otel and an OTLP exporter",
    ),
)
