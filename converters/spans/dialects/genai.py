"""The OpenTelemetry GenAI semantic conventions, which the tracer's own spans and many others follow.

https://opentelemetry.io/docs/specs/semconv/gen-ai/. This dialect claims every span that no other claims. The
other dialects read by `read_attributes` what their spans share with the conventions, and change what differs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from spangrade.converters.spans import cached_tokens, run_io
from spangrade.converters.spans.advice import CLIENT, GENAI_CONTENT, Advice
from spangrade.converters.spans.agent_spans import OTHER_OPERATIONS
from spangrade.converters.spans.declarations import declared_tools, instructions
from spangrade.converters.spans.dialect import Dialect
from spangrade.converters.spans.digests import conversation_digests, with_responses
from spangrade.converters.spans.events import with_events
from spangrade.converters.spans.histories import History, history_of
from spangrade.converters.spans.logs import CALL_IDS
from spangrade.converters.spans.messages import code_executions, read_exchange
from spangrade.converters.spans.observation import Kind
from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.session_attributes import of_resource
from spangrade.converters.spans.values import count, exact_json, json_text, parse_json, text, texts
from spangrade.tracer import semconv
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE
from spangrade.tracer.span import LogRecord, Span

# The operation of a span that a dialect knows not to be a step, or reads by names of its own.
NO_STEP = "spangrade.no_step"
_KINDS: dict[str | None, Kind] = {
    **dict.fromkeys((None, NO_STEP, *OTHER_OPERATIONS), "other"),
    semconv.INVOKE_AGENT: "agent",
    semconv.INVOKE_WORKFLOW: "workflow",
    semconv.EXECUTE_TOOL: "tool",
    semconv.CHAT: "llm",
    "generate_content": "llm",
    "text_completion": "llm",
    "chat.completions": "llm",  # Semantic Kernel, and the next three
    "chat.streaming_completions": "llm",
    "text.completions": "llm",
    "text.streaming_completions": "llm",
}
_REQUEST_TYPES = frozenset({"chat", "completion"})
_OPERATIONS_IN_NAMES = frozenset({semconv.INVOKE_AGENT, semconv.INVOKE_WORKFLOW, semconv.EXECUTE_TOOL})
# Names of tool spans that are not tools: ADK's summaries of a round of parallel calls.
_NOT_TOOLS = frozenset({"(merged tools)", "(merged)"})
# Endings of the scopes of instrumentations that record the Model Context Protocol alone.
_PROTOCOLS = (".mcp", "fastmcp")
_OF_CALLS = frozenset(
    {semconv.INPUT_MESSAGES, semconv.OUTPUT_MESSAGES, "gen_ai.prompt.0.role", "gen_ai.completion.0.role"}
)
_MCP_METHOD, _MCP_CALL = "mcp.method.name", "tools/call"
_NOT_CALL_IDS = frozenset({"<not specified>"})
_PROMPTED = frozenset({"llm", "agent"})
# A response of OpenAI's, which a client that leaves the conversation to the server records as its id.
_RESPONSE = "resp_"
# Of a streamed call whose first output came; and exceptions that may end one after that.
_FIRST_OUTPUTS = (
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.server.time_to_first_token",
    "gen_ai.response.time_to_first_token",
)
_ENDED_EARLY = re.compile(
    r"(?:^|[./])(?:Cancelled(?:Error)?|GeneratorExit|Stop(?:Async)?Iteration|AbortError|ClientDisconnect|"
    r"ClosedResourceError|\w*(?:StreamClosed|ClosedStream)\w*)$"
)
_INTERRUPTED = re.compile(
    r"Cancel|GeneratorExit|Time-?d?_?out|Timeout|Incomplete|ReadError|ProtocolError", re.I
)

# Every published name, and those of instrumentations that otherwise follow the conventions; newest first.
_CONVERSATION_IDS = (semconv.CONVERSATION_ID, "gen_ai.thread.id", "session.id")
_PROVIDERS = (semconv.PROVIDER_NAME, "gen_ai.system")
_MODELS = (semconv.RESPONSE_MODEL, semconv.REQUEST_MODEL)
_TEXTS = (
    ("question_id", (semconv.QUESTION_ID,)),
    ("user_id", (semconv.USER_ID, "enduser.id")),
    ("provider", _PROVIDERS),
    ("model", _MODELS),
    ("requested_model", (semconv.REQUEST_MODEL,)),
    ("call_key", (semconv.RESPONSE_ID,)),
    ("call_id", CALL_IDS),
)
_TURN_TEXTS = (("user_input", semconv.TURN_INPUT), ("response", semconv.TURN_OUTPUT))
_JSON_TEXTS = (("arguments", semconv.TOOL_CALL_ARGUMENTS), ("result", semconv.TOOL_CALL_RESULT))
_INPUTS = (semconv.INPUT_MESSAGES, "gen_ai.prompt")
_OUTPUTS = (semconv.OUTPUT_MESSAGES, "gen_ai.completion")
# Where a span of a tool has its arguments and its result as messages (TanStack AI).
_TOOL_MESSAGES = (("arguments", semconv.INPUT_MESSAGES), ("result", semconv.OUTPUT_MESSAGES))
_TOKENS = (
    ("input_tokens", (semconv.INPUT_TOKENS, "gen_ai.usage.prompt_tokens")),
    ("output_tokens", (semconv.OUTPUT_TOKENS, "gen_ai.usage.completion_tokens")),
    ("total_tokens", ("gen_ai.usage.total_tokens", "llm.usage.total_tokens", "llm.token_count.total")),
    (
        "cached_input_tokens",
        (
            semconv.CACHE_READ_TOKENS,
            "gen_ai.usage.cache_read_input_tokens",
            "gen_ai.usage.cached_tokens",  # Langtrace
            "gen_ai.usage.details.cache_read_tokens",
            "gen_ai.usage.details.cache_read_input_tokens",
            "gen_ai.usage.details.cached_tokens",
        ),
    ),
    (
        "reasoning_tokens",
        (
            semconv.REASONING_TOKENS,
            "gen_ai.usage.reasoning_tokens",
            "gen_ai.usage.thinking_tokens",  # AG2
            "gen_ai.usage.details.reasoning_tokens",
            "gen_ai.usage.details.thoughts_tokens",
        ),
    ),
    (
        "cache_write_tokens",
        (
            semconv.CACHE_WRITE_TOKENS,
            "gen_ai.usage.cache_write.input_tokens",
            "gen_ai.usage.cache_creation_input_tokens",
            "gen_ai.usage.cache_write_input_tokens",
            "gen_ai.usage.details.cache_write_tokens",
            "gen_ai.usage.details.cache_creation_input_tokens",
        ),
    ),
)
# Each field with each of its names, the newest last: of those that a span has, the newest counts.
_TEXT_NAMES = tuple((field, name) for field, names in _TEXTS for name in reversed(names))
_TOKEN_NAMES = tuple((field, name) for field, names in _TOKENS for name in reversed(names))


# The names of attributes that are looked for, by what is read of them.
_OF_A_SHAPE = frozenset(
    {
        *(name for _, name in (*_TEXT_NAMES, *_TOKEN_NAMES, *_TURN_TEXTS, *_JSON_TEXTS, *_TOOL_MESSAGES)),
        *_CONVERSATION_IDS,
        _MCP_METHOD,
        semconv.ERROR_TYPE,
    }
)


class _Shape(NamedTuple):
    """What spans with the same attributes have: fields of a reading, each with its attribute."""

    texts: tuple[tuple[str, str], ...]
    tokens: tuple[tuple[str, str], ...]
    json_texts: tuple[tuple[str, str], ...]
    tool_messages: tuple[tuple[str, str], ...]
    turn_texts: tuple[tuple[str, str], ...]
    conversation_id: str | None  # the attribute with it
    has_error: bool
    of_protocol: bool


@lru_cache(maxsize=4096)
def _shape(names: frozenset[str]) -> _Shape:
    """Return the shape of spans by the names of their attributes: what is absent costs nothing."""

    def present(table: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        return tuple({field: name for field, name in table if name in names}.items())

    return _Shape(
        present(_TEXT_NAMES),
        present(_TOKEN_NAMES),
        present(_JSON_TEXTS),
        present(_TOOL_MESSAGES),
        present(_TURN_TEXTS),
        next((name for name in _CONVERSATION_IDS if name in names), None),
        semconv.ERROR_TYPE in names,
        _MCP_METHOD in names,
    )


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Read a span by its `gen_ai.*` attributes, and those that it lacks from its events and logs."""
    return read_attributes(span, with_events(span, logs))


def read_attributes(span: Span, attributes: Mapping[str, Any]) -> Reading:
    """Read a span by the conventions, given its attributes (and what its events add to them)."""
    named_kind, tool, agent = _kind_and_names(span, attributes)
    kind = named_kind or _kind_by_content(attributes)
    shape = _shape(_OF_A_SHAPE.intersection(attributes))
    fields: dict[str, Any] = {field: text(attributes[name]) for field, name in shape.texts}
    # The spans of a web server, or of a connection to a server, may carry a `session.id` of another kind.
    conversation_id, previous = None, None
    if shape.conversation_id is not None and (
        shape.conversation_id == semconv.CONVERSATION_ID or not (kind == "other" or shape.of_protocol)
    ):
        conversation_id = text(attributes[shape.conversation_id])
    if conversation_id is not None and conversation_id.startswith(_RESPONSE):
        conversation_id, previous = None, conversation_id
    if fields.get("call_id") in _NOT_CALL_IDS:
        del fields["call_id"]
    if shape.has_error or span.status != "UNSET" or span.events:
        fields |= _failure(span, attributes, kind)
    if kind in _PROMPTED:
        fields |= _exchange(attributes, kind, conversation_id, previous)
    if kind != "tool" and shape.tokens:
        fields |= _counts(span, attributes, shape, fields)
    for field, name in shape.json_texts:
        fields[field] = json_text(run_io.python_value(attributes[name]))
    if kind == "tool":
        for field, name in shape.tool_messages:
            if fields.get(field) is None:
                fields[field] = _content_of_only(attributes[name])
        if arguments := fields.get("arguments"):
            fields["arguments"] = run_io.without_contexts(arguments)
    if shape.of_protocol or (span.scope_name or "").endswith(_PROTOCOLS):
        fields["of_protocol"] = True
        fields["of_server"] = span.kind == "SERVER"
    # What a turn records of itself comes before the messages.
    for field, name in shape.turn_texts:
        if (own := text(attributes[name])) or attributes[name] == "":
            fields[field] = own or ""  # an empty reply is one
    environment, service = (None, None) if kind == "other" else of_resource(span.resource)
    return Reading(
        kind,
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        span.start_ns,
        span.end_ns,
        name=tool if kind == "tool" else agent,
        agent=agent,
        agent_version=text(attributes.get(semconv.AGENT_VERSION))
        or text(span.resource.get(semconv.SERVICE_VERSION)),
        tags=tuple(texts(attributes.get(semconv.TAGS))),
        conversation_id=conversation_id,
        span_name=text(span.name),
        scope=span.scope_name,
        environment=environment,
        service_name=service,
        state=_state(span, attributes),
        timed=span.end_ns >= span.start_ns and not attributes.get(semconv.DURATION_UNKNOWN),
        by_content=named_kind is None and kind != "other",
        **fields,
    )


def _content_of_only(messages: Any) -> str | None:
    """Return the content, as JSON text, of the one message of a tool; None for anything else."""
    listed = parse_json(messages)
    if not isinstance(listed, list) or len(listed) != 1 or not isinstance(listed[0], dict):
        return None
    return json_text(listed[0].get("content")) if listed[0].get("role") == "tool" else None


def _exchange(
    attributes: Mapping[str, Any],
    kind: Kind,
    conversation_id: str | None,
    previous: str | None,
) -> dict[str, Any]:
    """Return what a call of a model or of an agent records of messages, tools and instructions.

    `previous` is the id of the response that it continues, in an API that keeps the conversation.
    """
    history, inputs, outputs = _messages(attributes, conversation_id)
    fields: dict[str, Any] = {
        "tool_declarations": declared_tools(attributes.get(semconv.TOOL_DEFINITIONS)),
        "system_instructions": instructions(attributes.get(semconv.SYSTEM_INSTRUCTIONS), inputs),
    }
    if inputs is not None or outputs is not None:
        fields |= read_exchange(inputs, outputs, None if history is None else history.users)._asdict()
        # Older instrumentations leave such parts out, so that none recorded does not mean that none ran.
        fields["code_executions"] = code_executions(outputs) or None
    if conversation_id is None and (kind == "llm" or previous):
        response_id = text(attributes.get(semconv.RESPONSE_ID)) if kind == "llm" else None
        digests = conversation_digests(inputs, outputs) if history is None else history.digests(outputs)
        fields["digests"] = with_responses(digests, previous, response_id)
    return fields


def _counts(
    span: Span, attributes: Mapping[str, Any], shape: _Shape, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the counts of tokens, the cached ones a part of the input."""
    counts: dict[str, Any] = {field: count(attributes[name]) for field, name in shape.tokens}
    if counts.get("cached_input_tokens") or counts.get("cache_write_tokens"):
        names = (fields.get("provider"), fields.get("model"), fields.get("requested_model"))
        counts |= cached_tokens.placed(span.scope_name, attributes, counts, *names)
    return counts


def _kind_by_content(attributes: Mapping[str, Any]) -> Kind:
    """Return the kind of a span whose operation has a name that is not known, by what it records."""
    if text(attributes.get(semconv.TOOL_NAME)):
        called = any(map(attributes.get, CALL_IDS))
        ran = semconv.TOOL_CALL_ARGUMENTS in attributes and semconv.TOOL_CALL_RESULT in attributes
        return "tool" if called or ran else "other"
    if not any(text(attributes.get(name)) for name in _MODELS):
        return "other"
    has_tokens = any(count(attributes.get(name)) is not None for _, name in _TOKEN_NAMES)
    return "llm" if has_tokens or not _OF_CALLS.isdisjoint(attributes) else "other"


def _kind_and_names(span: Span, attributes: Mapping[str, Any]) -> tuple[Kind | None, str | None, str | None]:
    """Return a span's kind, None if its operation is not known, its tool's name and its agent's name."""
    operation = text(attributes.get(semconv.OPERATION_NAME))
    if operation is None and (word := span.name.partition(" ")[0]) in _OPERATIONS_IN_NAMES:
        operation = word
    kind = "turn" if attributes.get(semconv.TURN) else _KINDS.get(operation)
    if (kind is None or operation is None) and text(attributes.get("llm.request.type")) in _REQUEST_TYPES:
        kind = "llm"
    tool, agent = text(attributes.get(semconv.TOOL_NAME)), text(attributes.get(semconv.AGENT_NAME))
    if operation is None and tool and attributes.get(_MCP_METHOD) == _MCP_CALL:
        kind = "tool"
    if kind == "tool":
        tool = tool or _name_after(span, semconv.EXECUTE_TOOL)
        if tool is None or tool in _NOT_TOOLS:
            kind = "other"
    elif kind == "agent":
        agent = agent or _name_after(span, semconv.INVOKE_AGENT)
    return kind, tool, agent


def _name_after(span: Span, operation: str) -> str | None:
    """Return the part of a span's name after the operation: `get_cart` of `execute_tool get_cart`."""
    return text(span.name[len(operation) + 1 :]) if span.name.startswith(f"{operation} ") else None


def _first(attributes: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the value of the first of the names that is present."""
    for name in names:
        if name in attributes:
            return attributes[name]
    return None


def _state(span: Span, attributes: Mapping[str, Any]) -> tuple[tuple[int, Mapping[str, Any]], ...]:
    if semconv.STATE not in attributes and not span.events:
        return ()
    writes = [(span.end_ns, attributes[semconv.STATE])] if semconv.STATE in attributes else []
    writes += [
        (event["time_ns"], event["attributes"].get(semconv.STATE))
        for event in span.events
        if event.get("name") == semconv.STATE
    ]
    values = [(time_ns, exact_json(value)) for time_ns, value in writes]
    return tuple((time_ns, value) for time_ns, value in values if isinstance(value, dict))


def _failure(span: Span, attributes: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """Return the fields of a span's failure."""
    failed, error = failure(span, attributes)
    if not failed and kind == "tool" and semconv.TOOL_CALL_RESULT not in attributes:
        error = _cancelled(span)
        failed = error is not None
    if not failed:
        return {}
    return {
        "failed": True,
        "error": error,
        "raised": any(event.get("name") == "exception" for event in span.events),
        "cut_off": _is_cut_off(span, attributes),
    }


def failure(span: Span, attributes: Mapping[str, Any]) -> tuple[bool, str | None]:
    """Return whether a span records a failure (status, `error.type` or an exception), and its message.

    An exception alone that only ended the work early, of a cancelled task or a closed stream, is not one.
    """
    exceptions = [e["attributes"] for e in span.events if e.get("name") == "exception"]
    if span.status != "ERROR" and semconv.ERROR_TYPE not in attributes:
        exceptions = [exception for exception in exceptions if not _is_interruption(exception)]
        if not exceptions:
            return False, None
    for exception in exceptions:
        if message := text(exception.get("exception.message")):
            kind = (text(exception.get("exception.type")) or "").rpartition(".")[2]
            whole = f"{kind}: {message}"
            return True, whole if span.status_message == whole else message
    message = span.status_message or text(attributes.get("error.message"))
    return True, message or text(attributes.get(semconv.ERROR_TYPE))


def _is_interruption(exception: Mapping[str, Any]) -> bool:
    name = exception.get("exception.type")
    return isinstance(name, str) and _ENDED_EARLY.search(name) is not None


def _cancelled(span: Span) -> str | None:
    """Return why a tool was cancelled, by a time-out or by its caller; None if it was not."""
    for event in span.events:
        if event.get("name") == "exception" and _is_interruption(event["attributes"]):
            return text(event["attributes"].get("exception.message")) or "cancelled"
    return None


def _is_cut_off(span: Span, attributes: Mapping[str, Any]) -> bool:
    types = [e["attributes"].get("exception.type") for e in span.events if e.get("name") == "exception"]
    return any(name in attributes for name in _FIRST_OUTPUTS) or any(
        isinstance(name, str) and _INTERRUPTED.search(name) is not None
        for name in (*types, attributes.get(semconv.ERROR_TYPE))
    )


def _messages(attributes: Mapping[str, Any], conversation_id: str | None) -> tuple[History | None, Any, Any]:
    """Return the request as a history, if it is one, its messages and those of the output; None for none."""
    inputs, outputs = _first(attributes, _INPUTS), parse_json(_first(attributes, _OUTPUTS))
    history = None
    if isinstance(inputs, str):
        history = history_of(inputs, conversation_id)
        inputs = parse_json(inputs) if history is None else history.messages
    if isinstance(inputs, str):
        inputs = [{"role": "user", "content": inputs}]
    if isinstance(outputs, str):
        outputs = [{"role": "assistant", "content": outputs}]
    return history, inputs, outputs


DIALECT = Dialect(
    name="genai",
    read=read,
    advice_by_scope={
        "agent_framework": Advice(
            name="MS Agent Framework",
            content="set ENABLE_SENSITIVE_DATA=true",
            conversation="run each turn in spangrade.session(ID), or put gen_ai.conversation.id on the spans",
        ),
        "openlit": CLIENT._replace(
            name="OpenLIT",
            content="do not set capture_message_content=False in openlit.init()",
            model_calls="do not leave the model client out by openlit.init(disabled_instrumentors=…)",
        ),
        "spangrade": Advice(
            name="spangrade's tracer",
            content=f"unset {CAPTURE_CONTENT_VARIABLE}=NO_CONTENT",
            conversation="run each turn in spangrade.session(ID)",
            agents="run each agent in spangrade.agent(NAME)",
            tools="run each tool in spangrade.tool(NAME)",
            model_calls="run each model call in spangrade.llm_call(MODEL)",
            tokens="set LLMCall.usage, or LLMCall.response to what the client returned",
        ),
        "@opentelemetry/instrumentation-openai": CLIENT._replace(
            name="OpenAI by OpenTelemetry for Node",
            content=f"set captureMessageContent: true, or {CAPTURE_CONTENT_VARIABLE}=true, and import the "
            "logs too",
            conversation="put gen_ai.conversation.id on the spans, by a span processor",
            agents="record gen_ai.agent.name on a span around each agent's run",
            tools="record an execute_tool span around each tool call",
            tokens="ask for usage in streamed answers: stream_options: { include_usage: true }",
        ),
        "com.anthropic.sdk": CLIENT._replace(name="Anthropic's client", content=None, tokens=None),
        "opentelemetry.instrumentation.genai.anthropic": CLIENT._replace(
            name="Anthropic by OpenTelemetry", tokens=None
        ),
        "opentelemetry.instrumentation.genai.openai": CLIENT._replace(name="OpenAI by OpenTelemetry"),
        "opentelemetry.instrumentation.genai.openai_agents": Advice(
            name="the OpenAI Agents SDK by OpenTelemetry",
            content=GENAI_CONTENT,
            conversation="pass group_id to the SDK's trace() or RunConfig",
            model_calls="instrument the model client too: opentelemetry-instrumentation-openai-v2",
            tokens="set ModelSettings(include_usage=True)",
        ),
        "opentelemetry.instrumentation.google_genai": CLIENT._replace(
            name="Gemini's client by OpenTelemetry", tokens=None
        ),
        "opentelemetry.instrumentation.openai_v2": CLIENT._replace(name="OpenAI by OpenTelemetry"),
        "semantic_kernel": CLIENT._replace(
            name="Semantic Kernel",
            content="set SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true",
            agents="give the agent a name: ChatCompletionAgent(name=…)",
            model_calls="set SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS=true",
            tokens=None,
        ),
    },
)
