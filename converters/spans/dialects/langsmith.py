"""LangSmith's OpenTelemetry exporter: LangChain's runs, and the functions and clients that LangSmith wraps.

`langsmith.span.kind` is a run's kind. `gen_ai.prompt` and `gen_ai.completion` are its inputs and outputs as
JSON, LangChain's own or a provider's; `langsmith.metadata.*` is the run's metadata.

https://docs.langchain.com/langsmith/trace-with-opentelemetry
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spangrade.converters.spans import langchain_values, provider_values, run_io
from spangrade.converters.spans.advice import Advice
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import first_text, json_text, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import LogRecord, Span

_KIND = "langsmith.span.kind"
_METADATA = "langsmith.metadata."
_CONVERSATION_IDS = ("session_id", "thread_id", "conversation_id")
_TRACEBACK = "Traceback (most recent call last)"  # follows an exception's message


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:  # noqa: ARG001 (LangSmith has none)
    """Read a span by LangSmith's attributes, and by the GenAI conventions what they lack."""
    attributes = span.attributes
    start = len(_METADATA)
    metadata = {key[start:]: value for key, value in attributes.items() if key.startswith(_METADATA)}
    inputs, outputs = (parse_json(attributes.get(f"gen_ai.{side}")) for side in ("prompt", "completion"))
    kind = attributes[_KIND]
    own: dict[str, Any] = {semconv.OPERATION_NAME: genai.NO_STEP}
    if kind == "llm":
        own = {
            semconv.OPERATION_NAME: semconv.CHAT,
            semconv.INPUT_MESSAGES: _request(inputs) or None,
            semconv.OUTPUT_MESSAGES: _response(outputs) or None,
        }
    observation = _without_traceback(genai.read_attributes(span, {**attributes, **own}))
    observation = observation._replace(
        conversation_id=first_text(map(metadata.get, _CONVERSATION_IDS)),
        user_id=observation.user_id or text(metadata.get("user_id")),
    )
    match kind:
        case "tool":
            return _tool(span, observation, inputs, outputs)
        case "chain":
            return observation._replace(**_run(span, observation, metadata, inputs, outputs))
    return observation


def _without_traceback(observation: Reading) -> Reading:
    if observation.error is None:
        return observation
    error = observation.error.partition(_TRACEBACK)[0].strip() or None
    if error is not None and langchain_values.is_control_flow(error):
        return observation._replace(failed=False, error=None)
    return observation._replace(error=error)


def _request(inputs: Any) -> list[dict[str, Any]]:
    given = provider_values.request_messages(inputs)
    return langchain_values.provider_messages(given) or given


def _response(outputs: Any) -> list[dict[str, Any]]:
    message = langchain_values.generated_message(outputs)
    answers = [message] if message else provider_values.response_messages(outputs)
    return langchain_values.provider_messages(answers) or answers


def _tool(span: Span, observation: Reading, inputs: Any, outputs: Any) -> Reading:
    if isinstance(outputs, dict) and outputs.keys() <= {"output"}:
        outputs = outputs.get("output")
    tool = observation._replace(
        kind="tool",
        name=text(span.attributes.get(semconv.TOOL_NAME)) or span.name,
        agent=None,
        arguments=json_text(run_io.arguments(inputs)),
        result=json_text(outputs),
    )
    return tool._replace(**run_io.tool_output(tool, outputs))


def _run(
    span: Span, observation: Reading, metadata: Mapping[str, Any], inputs: Any, outputs: Any
) -> dict[str, Any]:
    name = text(metadata.get("lc_agent_name"))
    is_agent = name is not None and name == span.name
    is_whole = "langgraph_node" not in metadata
    if not is_agent and not is_whole:
        return {}
    is_graph = "ls_integration" in metadata or langchain_values.holds_messages(outputs)
    return {
        "kind": "agent" if is_agent else "workflow",
        "name": name if is_agent else None,
        "agent": name if is_agent else None,
        "user_input": run_io.user_input(inputs, topmost=False),
        "response": run_io.response(outputs, topmost=False),
        "run_input": run_io.user_input(inputs, topmost=True),
        "run_output": run_io.response(outputs, topmost=True),
        "only_topmost": not is_agent and "ls_integration" not in metadata,
        "state": langchain_values.state_writes(outputs, span.end_ns)
        if is_graph and is_whole
        else observation.state,
    }


DIALECT = Dialect(
    name="langsmith",
    signs=Signs(attributes=frozenset({_KIND})),
    read=read,
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
