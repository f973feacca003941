"""Pydantic AI, from 0.x to 2.x.

Older versions record the operation and the agent by the span's name alone, and keep the messages in a list
on the span.
"""

from __future__ import annotations

from spangrade.converters.spans.dialect import Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.observation import Kind, RunSpan, changed
from spangrade.converters.spans.values import text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span


def _kind(span: Span, attributes: Attributes) -> Kind | None:
    if (text(attributes.get("logfire.msg")) or "").startswith("running output function"):
        return "other"  # the last step of a structured answer, not a tool
    if semconv.OPERATION_NAME in attributes:
        return None
    if span.name.startswith("running tool") and semconv.TOOL_NAME in attributes:
        return "tool"
    return "agent" if "agent_name" in attributes else None


def _agent(run: RunSpan, _: Span, attributes: Attributes) -> RunSpan:
    name = run.agent or text(attributes.get("agent_name"))
    response = run.exchange.response or text(attributes.get("final_result"))
    return changed(run, name=name, agent=name, response=response)


DIALECT = Dialect(
    name="pydantic-ai",
    signs=Signs(scopes=frozenset({"pydantic-ai"})),
    names={"tool_arguments": semconv.TOOL_CALL_ARGUMENTS, "tool_response": semconv.TOOL_CALL_RESULT},
    kind=_kind,
    fixes={"agent": _agent},
    before=("traceloop",),
    advice=Advice(
        name="Pydantic AI",
        content="set InstrumentationSettings(include_content=True)",
        conversation="run each turn in spangrade.session(ID), or put gen_ai.conversation.id on the spans",
        agents="give the agent a name: Agent(name=…)",
        model_calls="instrument the agent: Agent(instrument=True) or Agent.instrument_all()",
    ),
)
