"""AG2's telemetry middleware: the conventions, and a span for each of its accounting records.

A record of a `model_call` repeats the usage of a span beside it. Those of other kinds may be all that tells
of what they cost: `compaction` and `aggregation` are calls of a model of which nothing else is recorded, and
a `subtask` sums up another agent's run, which may have spans of its own.

Before 1.0, a group chat is one span for all messages of the user: an agent's span that answers in the role of
the user is such a message, and the manager and the executor of tools are parts of the framework.

https://docs.ag2.ai/latest/docs/user-guide/tracing/
"""

from __future__ import annotations

from typing import Any

from spangrade.converters.spans.dialect import STREAMED, Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.messages import read_exchange
from spangrade.converters.spans.observation import Kind, Observation, RunSpan, changed, structure_of
from spangrade.converters.spans.values import objects, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

_SPAN_TYPE, _USAGE_KIND = "ag2.span.type", "ag2.usage.kind"
# The name that the middleware gives an agent that was given none.
_UNNAMED = "unknown"
_CONVERSATIONS = frozenset({"conversation", "multi_conversation"})
_MANAGER, _PARTS = "chat_manager", "_Group_"
_WORK = frozenset({semconv.PROVIDER_NAME, semconv.REQUEST_MODEL, semconv.OUTPUT_MESSAGES})


def _kind(_: Span, attributes: Attributes) -> Kind | None:
    span_type = text(attributes.get(_SPAN_TYPE))
    if span_type == "usage":
        return "other" if attributes.get(_USAGE_KIND) in ("model_call", "subtask") else "llm"
    return "workflow" if span_type in _CONVERSATIONS else None


def _any(observation: Observation, span: Span, attributes: Attributes) -> Observation:
    if attributes.get(_USAGE_KIND) == "subtask":
        agent = text(attributes.get("ag2.usage.label"))
        return changed(observation, not_understood=span.scope_name or "", sums_up=agent)
    return observation._replace(agent=None) if observation.agent == _UNNAMED else observation


def _conversation(run: RunSpan, _: Span, attributes: Attributes) -> RunSpan:
    said = read_exchange(parse_json(attributes.get(semconv.INPUT_MESSAGES)), None).user_input
    return changed(run, name=None, agent=None, user_input=said)


def _agent(run: RunSpan, span: Span, attributes: Attributes) -> Observation:
    name = run.name or ""
    if name.startswith(_PARTS) or name == _MANAGER or _is_idle(span):
        return structure_of(run)._replace(agent=None)
    if name == _UNNAMED:
        return run._replace(name=None)
    said = _said(attributes.get(semconv.OUTPUT_MESSAGES))
    if said is None:
        return run
    run = run._replace(is_agent=False, name=None, agent=None)
    return changed(run, user_input=said or None, response=None, of_user=True)


def _is_idle(span: Span) -> bool:
    """Return whether an agent without a model said nothing: the user ended the chat.

    Since 1.0, which gives its scope no version, no agent's span has these attributes.
    """
    return span.scope_version is not None and _WORK.isdisjoint(span.attributes)


def _said(outputs: Any) -> str | None:
    """Return the message of an agent that stands for the user; None for any other agent."""
    messages = objects(parse_json(outputs))
    if not messages or any(message.get("role") != "user" for message in messages):
        return None
    return read_exchange(messages, None).user_input or ""


DIALECT = Dialect(
    name="ag2",
    signs=Signs(attributes=frozenset({_SPAN_TYPE})),
    kind=_kind,
    fixes={None: _any, "agent": _agent, "workflow": _conversation},
    advice=Advice(
        name="AG2",
        content="do not set TelemetryMiddleware(capture_content=False); before 1.0: "
        "instrument_llm_wrapper(capture_messages=True)",
        conversation='give it: TelemetryMiddleware(span_attributes={"gen_ai.conversation.id": ID})',
        agents="name each agent: TelemetryMiddleware(agent_name=…)",
        tools="give each agent the middleware; before 1.0: instrument_agent(), instrument_pattern()",
        model_calls="give each agent the middleware, sub-agents too; before 1.0: instrument_llm_wrapper()",
        tokens=STREAMED,
    ),
)
