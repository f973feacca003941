"""LangSmith's OpenTelemetry exporter: LangChain's runs, and the functions and clients that LangSmith wraps.

`langsmith.span.kind` is a run's kind. `gen_ai.prompt` and `gen_ai.completion` are its inputs and outputs as
JSON, LangChain's own or a provider's; `langsmith.metadata.*` is the run's metadata.

https://docs.langchain.com/langsmith/trace-with-opentelemetry
"""

from __future__ import annotations

from typing import Any

from spangrade.converters.spans import langchain_values
from spangrade.converters.spans.agents import without_operation
from spangrade.converters.spans.dialect import Advice, Attributes, Dialect, Signs
from spangrade.converters.spans.observation import Kind, Observation, RunSpan, changed, named_run
from spangrade.converters.spans.values import first_identity, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

_KIND = "langsmith.span.kind"
_INPUTS, _OUTPUTS = "gen_ai.prompt", "gen_ai.completion"
_METADATA = "langsmith.metadata."
_CONVERSATION_IDS = tuple(_METADATA + name for name in ("session_id", "thread_id", "conversation_id"))
_INTEGRATION = _METADATA + "ls_integration"
_TRACEBACK = "Traceback (most recent call last)"  # follows an exception's message


def _kind(span: Span, attributes: Attributes) -> Kind:
    kind = attributes[_KIND]
    if kind == "chain":
        return "workflow" if _is_agent(span) or _is_whole(attributes) else "other"
    return kind if kind in ("llm", "tool") else "other"


def _is_agent(span: Span) -> bool:
    return text(span.attributes.get(_METADATA + "lc_agent_name")) == span.name


def _is_whole(attributes: Attributes) -> bool:
    return _METADATA + "langgraph_node" not in attributes


def _values(span: Span, attributes: Attributes, kind: Kind | None) -> dict[str, Any]:
    own: dict[str, Any] = {semconv.CONVERSATION_ID: first_identity(map(attributes.get, _CONVERSATION_IDS))}
    if kind == "tool":
        outputs = parse_json(attributes.get(_OUTPUTS))
        is_wrapped = isinstance(outputs, dict) and outputs.keys() <= {"output"}
        own[semconv.TOOL_NAME] = text(attributes.get(semconv.TOOL_NAME)) or without_operation(span.name)
        own[semconv.TOOL_CALL_RESULT] = outputs.get("output") if is_wrapped else outputs
    return own


def _any(observation: Observation, _: Span, __: Attributes) -> Observation:
    """Return an observation without the traceback of its error."""
    if observation.failure is None or observation.failure.error is None:
        return observation
    return changed(observation, error=observation.failure.error.partition(_TRACEBACK)[0].strip() or None)


def _run(run: RunSpan, span: Span, attributes: Attributes) -> RunSpan:
    outputs = parse_json(attributes.get(_OUTPUTS))
    is_agent, is_graph = _is_agent(span), _INTEGRATION in attributes
    run = changed(named_run(run, span.name if is_agent else None), only_topmost=not is_agent and not is_graph)
    is_node = not _is_whole(attributes)
    return langchain_values.with_state(run, outputs, span.end_ns, is_graph=is_graph, is_node=is_node)


DIALECT = Dialect(
    name="langsmith",
    signs=Signs(attributes=frozenset({_KIND})),
    kind=_kind,
    inputs=(_INPUTS,),
    outputs=(_OUTPUTS,),
    values=_values,
    fixes={None: _any, "tool": lambda call, *_: call._replace(agent=None), "workflow": _run},
    advice=Advice(
        name="LangSmith",
        content="unset LANGSMITH_HIDE_INPUTS and LANGSMITH_HIDE_OUTPUTS",
        conversation="put thread_id or session_id into the metadata of the run's config",
        agents="give the agent a name: create_agent(name=…)",
        tools='decorate the tool with @traceable(run_type="tool")',
        model_calls='wrap the client: wrap_openai(), or @traceable(run_type="llm")',
        tokens="set usage_metadata on the run; with LangChain, stream_usage=True on the chat model",
    ),
)
