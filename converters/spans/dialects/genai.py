"""The OpenTelemetry GenAI semantic conventions, which the tracer's own spans and many others follow.

https://opentelemetry.io/docs/specs/semconv/gen-ai/. This dialect claims every span that no other claims. The
others are their difference from it: they give `read_attributes` what they have under the conventions' names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from spangrade.converters.spans import langchain_values, provider_values, run_io, token_counts
from spangrade.converters.spans.agents import (
    OTHER_OPERATIONS,
    tool_in_attributes,
    tool_in_name,
    without_operation,
)
from spangrade.converters.spans.declarations import declared_tools, instructions
from spangrade.converters.spans.dialect import CLIENT, GENAI_CONTENT, Advice, Dialect, Read, renaming
from spangrade.converters.spans.events import CALL_IDS, with_events
from spangrade.converters.spans.histories import History, conversation_digests, history_of, with_responses
from spangrade.converters.spans.messages import read_exchange
from spangrade.converters.spans.observation import (
    NO_EXCHANGE,
    NO_NOTES,
    NO_TOKENS,
    NO_TRAITS,
    Digests,
    Handoff,
    Kind,
    MessageExchange,
    ModelCall,
    Notes,
    Observation,
    RunSpan,
    SpanFailure,
    SpanRef,
    Structure,
    TokenCounts,
    ToolUse,
    Trait,
    TurnSpan,
    kind_of,
    nameless,
    shared_context,
    structure_of,
)
from spangrade.converters.spans.outcomes import is_mark, mark_of
from spangrade.converters.spans.parts import is_answer
from spangrade.converters.spans.session_attributes import of_resource
from spangrade.converters.spans.values import (
    arguments_text,
    count,
    exact_json,
    first_identity,
    first_of,
    identity,
    json_text,
    parse_json,
    text,
    texts,
)
from spangrade.tracer import semconv
from spangrade.tracer.frameworks import AGENT_FRAMEWORK
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE
from spangrade.tracer.span import LogRecord, Span

_KINDS: dict[str | None, Kind] = {
    **dict.fromkeys((None, *OTHER_OPERATIONS), "other"),
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
_EXCHANGING = frozenset({"llm", "agent", "workflow", "turn"})
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
_PROVIDERS = (semconv.PROVIDER_NAME, "gen_ai.system")
_MODELS = (semconv.RESPONSE_MODEL, semconv.REQUEST_MODEL)
_INPUTS = (semconv.INPUT_MESSAGES, "gen_ai.prompt")
_OUTPUTS = (semconv.OUTPUT_MESSAGES, "gen_ai.completion")
_NAMES: Mapping[str, tuple[str, ...]] = {
    "conversation_id": (semconv.CONVERSATION_ID, "gen_ai.session.id", "gen_ai.thread.id", "session.id"),
    "question_id": (semconv.QUESTION_ID,),
    "user_id": (semconv.USER_ID, "enduser.id"),
    "agent_version": (semconv.AGENT_VERSION,),
    "tags": (semconv.TAGS,),
    "provider": _PROVIDERS,
    "model": _MODELS,
    "requested_model": (semconv.REQUEST_MODEL,),
    "call_key": (semconv.RESPONSE_ID,),
    "call_id": CALL_IDS,
    "arguments": (semconv.TOOL_CALL_ARGUMENTS,),
    "result": (semconv.TOOL_CALL_RESULT,),
    # Where a span of a tool has its arguments and its result as messages (TanStack AI).
    "arguments_message": (semconv.INPUT_MESSAGES,),
    "result_message": (semconv.OUTPUT_MESSAGES,),
    "inputs": _INPUTS,
    "outputs": _OUTPUTS,
    "declarations": (semconv.TOOL_DEFINITIONS,),
    "instructions": (semconv.SYSTEM_INSTRUCTIONS,),
    "turn_input": (semconv.TURN_INPUT,),
    "turn_output": (semconv.TURN_OUTPUT,),
    "error": (semconv.ERROR_TYPE,),
    "protocol": (_MCP_METHOD,),
    "state": (semconv.STATE,),
    "outcome": (semconv.TOOL_OUTCOME,),
}
_TOKENS: Mapping[str, tuple[str, ...]] = {
    "input_tokens": (semconv.INPUT_TOKENS, "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens"),
    "output_tokens": (
        semconv.OUTPUT_TOKENS,
        "gen_ai.usage.completion_tokens",
        "llm.usage.completion_tokens",
    ),
    "cached_input_tokens": (
        semconv.CACHE_READ_TOKENS,
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.cached_tokens",  # Langtrace
        "gen_ai.usage.details.cache_read_tokens",
        "gen_ai.usage.details.cache_read_input_tokens",
        "gen_ai.usage.details.cached_tokens",
    ),
    "reasoning_tokens": (
        semconv.REASONING_TOKENS,
        "gen_ai.usage.reasoning_tokens",
        "gen_ai.usage.thinking_tokens",  # AG2
        "gen_ai.usage.details.reasoning_tokens",
        "gen_ai.usage.details.thoughts_tokens",
    ),
    "cache_write_tokens": (
        semconv.CACHE_WRITE_TOKENS,
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "gen_ai.usage.cache_write_input_tokens",
        "gen_ai.usage.details.cache_write_tokens",
        "gen_ai.usage.details.cache_creation_input_tokens",
    ),
    "total_tokens": ("gen_ai.usage.total_tokens", "llm.usage.total_tokens", "llm.token_count.total"),
}
_OF_A_SHAPE = frozenset(name for names in (*_NAMES.values(), *_TOKENS.values()) for name in names)


# Attributes that are no marks of a tool's outcome: of transports, and of what it was given or returned.
_NO_MARKS = re.compile(
    r"(?:http|rpc|db|otel|url|net|network|exception|error|log|k8s|messaging)\.|"
    r"(?:.*[._])?(?:inputs?|outputs?|args|arguments|parameters|result|response|metadata|state)\."
)


def _names_of_marks(names: Iterable[str]) -> tuple[str, ...]:
    """Return the attributes of a tool's span that may mark how the call ended, by their last words."""
    ends = {name: name.rpartition(".")[2] for name in names if not _NO_MARKS.match(name)}
    return tuple(name for name, end in ends.items() if is_mark(end) and not end.endswith("state"))


# By what spans record, the attribute that those of one set of names have for it; None for none.
_Shape: TypeAlias = Mapping[str, str | None]


@lru_cache(maxsize=4096)
def _shape(
    attributes: tuple[str, ...],
) -> tuple[_Shape, tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return the shape of spans by the names of their attributes.

    Beside it are the attributes of counts by field, and those that may mark how a tool's call ended.

    What is absent costs nothing then.
    """
    names = _OF_A_SHAPE.intersection(attributes)

    def newest(known: tuple[str, ...]) -> str | None:
        return next((name for name in known if name in names), None)

    counts = ((field, newest(known)) for field, known in _TOKENS.items())
    return (
        {field: newest(known) for field, known in _NAMES.items()},
        tuple((field, name) for field, name in counts if name is not None),
        _names_of_marks(attributes),
    )


class _Read(NamedTuple):
    """The fields that only spans with messages have."""

    exchange: MessageExchange = NO_EXCHANGE
    declarations: str | None = None
    instructions: str | None = None
    digests: Digests | None = None
    code_executions: int | None = None


_NOTHING = _Read()


def read_attributes(span: Span, attributes: Mapping[str, Any], kind: Kind | None = None) -> Observation:
    """Read a span by the conventions, given its attributes (with those that its events add).

    Its `kind` is that which its operation names, unless it is given. A tool without a name is none.
    """
    named, tool, agent = _kind_and_names(span, attributes, kind)
    traits: set[Trait] = set()
    if is_nameless := named == "tool" and tool is None:
        named, tool = _tool_otherwise(span, attributes, traits)
        is_nameless = tool is None
    kind = named or _kind_by_content(attributes)
    shape, count_names, marks = _shape(tuple(attributes))
    conversation_id, previous = None, None
    if (key := shape["conversation_id"]) is not None:
        conversation_id, previous = _conversation_id(attributes, key, shape, kind)
    if named is None and kind != "other":
        traits.add("by_content")
    if shape["protocol"] or (span.scope_name or "").endswith(_PROTOCOLS):
        traits.add("of_protocol")
        if span.kind == "SERVER":
            traits.add("of_server")
    model = text(attributes[shape["model"]]) if shape["model"] else None
    exchanged, tokens = _NOTHING, NO_TOKENS
    if kind == "llm" or kind == "agent":
        exchanged = _exchanged(attributes, shape, kind, conversation_id, previous)
    if kind in _EXCHANGING:
        if shape["turn_input"] or shape["turn_output"]:
            exchanged = exchanged._replace(exchange=_of_turn(attributes, shape, exchanged.exchange))
        if count_names:
            tokens = _counts(span, attributes, shape, count_names, model, traits)
    environment, service, version = of_resource(span.resource)
    state = _state(span, attributes) if shape["state"] or span.events else ()
    common = (
        SpanRef(
            span.trace_id,
            span.span_id,
            span.parent_span_id,
            span.start_ns,
            span.end_ns,
            span.end_ns >= span.start_ns and not attributes.get(semconv.DURATION_UNKNOWN),
            text(span.name),
            span.scope_name,
        ),
        shared_context(
            conversation_id,
            text(attributes[shape["question_id"]]) if shape["question_id"] else None,
            text(attributes[shape["user_id"]]) if shape["user_id"] else None,
            tuple(texts(attributes[shape["tags"]])) if shape["tags"] else (),
            (),
            (text(attributes[shape["agent_version"]]) if shape["agent_version"] else None) or version,
            None if kind == "other" else environment,
            None,
            None if kind == "other" else service,
        ),
        Notes(exchanged.declarations, exchanged.instructions, state)
        if state or exchanged.declarations or exchanged.instructions
        else NO_NOTES,
        agent,
        _failure(span, attributes, kind) if shape["error"] or span.status != "UNSET" or span.events else None,
        frozenset(traits) if traits else NO_TRAITS,
    )
    if kind == "other":
        made = Structure(*common)
        return nameless(made) if is_nameless else made
    if kind == "llm":
        return ModelCall(
            *common,
            exchanged.exchange,
            tokens,
            text(attributes[shape["provider"]]) if shape["provider"] else None,
            model,
            text(attributes[shape["requested_model"]]) if shape["requested_model"] else None,
            text(attributes[shape["call_key"]]) if shape["call_key"] else None,
            exchanged.digests,
            None,
            exchanged.code_executions,
        )
    if kind == "tool":
        used = ToolUse(*common, tool, *_call(attributes, shape))
        return _marked(used, attributes, marks) if marks or shape["outcome"] else used
    if kind == "turn":
        return TurnSpan(*common, exchanged.exchange, tokens, model)
    if kind == "handoff":
        target = text(attributes.get(semconv.HANDOFF_TO))
        return Handoff(*common, None, _call(attributes, shape)[1], target)
    return RunSpan(
        *common, exchanged.exchange, tokens, agent, model, exchanged.digests, is_agent=kind == "agent"
    )


def _tool_otherwise(span: Span, attributes: Mapping[str, Any], traits: set[Trait]) -> tuple[Kind, str | None]:
    """Return the kind and the name of a tool's span that lacks the conventions' name."""
    tool = tool_in_attributes(attributes)
    if tool is None:
        tool = tool_in_name(span)
        traits.add("named_by_span")
    return "other" if tool is None or is_answer(tool) else "tool", tool


def _conversation_id(
    attributes: Mapping[str, Any], key: str, shape: _Shape, kind: Kind
) -> tuple[str | None, str | None]:
    """Return the id of the conversation, or of the response that the call continues."""
    # The spans of a web server, or of a connection to a server, may carry a `session.id` of another kind.
    is_foreign = kind == "other" or shape["protocol"] is not None
    if is_foreign and key != semconv.CONVERSATION_ID:
        return None, None
    known = identity(attributes[key])
    if known is None and attributes[key] is not None and not is_foreign:  # a placeholder
        known = first_identity(map(attributes.get, _NAMES["conversation_id"]))
    return (None, known) if known and known.startswith(_RESPONSE) else (known, None)


def _marked(tool: ToolUse, attributes: Mapping[str, Any], names: Sequence[str]) -> ToolUse:
    """Return a tool's call with what attributes of these names, beside its result, say of it."""
    mark = mark_of({name.rpartition(".")[2]: attributes[name] for name in names}) if names else None
    if mark == "failed":
        return tool if tool.failure else tool._replace(failure=SpanFailure())
    if attributes.get(semconv.TOOL_OUTCOME) == "succeeded":  # frameworks' own marks are those of a span
        return tool._replace(traits=tool.traits | {"succeeded"})
    return tool._replace(traits=tool.traits | {"doubtful_outcome"}) if mark == "unknown" else tool


def _call(attributes: Mapping[str, Any], shape: _Shape) -> tuple[str | None, str | None, str | None]:
    """Return the id, the arguments and the result of a tool's call."""
    call_id = text(attributes[shape["call_id"]]) if shape["call_id"] else None
    arguments = (
        arguments_text(run_io.python_value(attributes[shape["arguments"]])) if shape["arguments"] else None
    )
    result = json_text(run_io.python_value(attributes[shape["result"]])) if shape["result"] else None
    if arguments is None and shape["arguments_message"]:
        arguments = _content_of_only(attributes[shape["arguments_message"]])
    if result is None and shape["result_message"]:
        result = _content_of_only(attributes[shape["result_message"]])
    return (
        None if call_id in _NOT_CALL_IDS else call_id,
        run_io.without_contexts(arguments) if arguments else arguments,
        result,
    )


def _content_of_only(messages: Any) -> str | None:
    """Return the content, as JSON text, of the one message of a tool; None for anything else."""
    listed = parse_json(messages)
    if not isinstance(listed, list) or len(listed) != 1 or not isinstance(listed[0], dict):
        return None
    return json_text(listed[0].get("content")) if listed[0].get("role") == "tool" else None


def _exchanged(
    attributes: Mapping[str, Any],
    shape: _Shape,
    kind: Kind,
    conversation_id: str | None,
    previous: str | None,
) -> _Read:
    """Return the messages, tools and instructions of a call of a model or of an agent.

    `previous` is the id of the response that it continues, in an API that keeps the conversation.
    """
    history, inputs, outputs = _messages(attributes, shape, conversation_id)
    exchange, executions, digests = NO_EXCHANGE, None, None
    if inputs is not None or outputs is not None:
        exchange = read_exchange(inputs, outputs, None if history is None else history.users)
        # Older instrumentations leave such parts out, so that none recorded does not mean that none ran.
        executions = exchange.code_runs or None
    if conversation_id is None and (kind == "llm" or previous):
        response_id = text(attributes[shape["call_key"]]) if kind == "llm" and shape["call_key"] else None
        digests = conversation_digests(inputs, outputs) if history is None else history.digests(outputs)
        digests = with_responses(digests, previous, response_id)
    return _Read(
        exchange,
        declared_tools(attributes[shape["declarations"]]) if shape["declarations"] else None,
        instructions(attributes[shape["instructions"]] if shape["instructions"] else None, inputs),
        digests,
        executions,
    )


def _of_turn(attributes: Mapping[str, Any], shape: _Shape, exchange: MessageExchange) -> MessageExchange:
    """Return an exchange with the texts that a turn records of itself, which precede the messages."""
    for field, name in (("user_input", shape["turn_input"]), ("response", shape["turn_output"])):
        if name and ((own := text(attributes[name])) or attributes[name] == ""):
            exchange = exchange._replace(**{field: own or ""})  # type: ignore[arg-type]  # an empty reply is one
    return exchange


def _counts(
    span: Span,
    attributes: Mapping[str, Any],
    shape: _Shape,
    count_names: Sequence[tuple[str, str]],
    model: str | None,
    traits: set[Trait],
) -> TokenCounts:
    """Return the counts of tokens, the cached ones a part of the input."""
    counts: dict[str, Any] = {field: count(attributes[name]) for field, name in count_names}
    if counts.get("cached_input_tokens") or counts.get("cache_write_tokens"):
        provider, requested = (
            text(attributes[name]) if name else None for name in (shape["provider"], shape["requested_model"])
        )
        placed = token_counts.placed(span.scope_name, attributes, counts, provider, model, requested)
        if placed.pop("cached_unplaced", False):
            traits.add("cached_unplaced")
        counts |= placed
    return TokenCounts(**counts)


def structure(span: Span, attributes: Mapping[str, Any] = MappingProxyType({})) -> Structure:
    """Return the fields that a span of any kind has; those of its own kind may follow."""
    return structure_of(read_attributes(span, attributes, "other"))


def agent_name(span: Span, attributes: Mapping[str, Any]) -> str | None:
    """Return the name of the agent whose run a span is."""
    return text(attributes.get(semconv.AGENT_NAME)) or _name_after(span, semconv.INVOKE_AGENT)


def kind_of_span(span: Span, attributes: Mapping[str, Any]) -> Kind:
    """Return the kind of a span by the conventions."""
    return _kind_and_names(span, attributes)[0] or _kind_by_content(attributes)


def _kind_by_content(attributes: Mapping[str, Any]) -> Kind:
    """Return the kind of a span whose operation has an unknown name, by its content."""
    if text(attributes.get(semconv.TOOL_NAME)):
        called = any(map(attributes.get, CALL_IDS))
        ran = semconv.TOOL_CALL_ARGUMENTS in attributes and semconv.TOOL_CALL_RESULT in attributes
        return "tool" if called or ran else "other"
    if not any(text(attributes.get(name)) for name in _MODELS):
        return "other"
    has_tokens = any(count(attributes.get(name)) is not None for names in _TOKENS.values() for name in names)
    return "llm" if has_tokens or not _OF_CALLS.isdisjoint(attributes) else "other"


def _kind_and_names(
    span: Span, attributes: Mapping[str, Any], kind: Kind | None = None
) -> tuple[Kind | None, str | None, str | None]:
    """Return a span's kind, None if its operation is not known, its tool's name and its agent's name."""
    tool, agent = text(attributes.get(semconv.TOOL_NAME)), text(attributes.get(semconv.AGENT_NAME))
    if kind is None:
        operation = text(attributes.get(semconv.OPERATION_NAME))
        if operation is None and (word := span.name.partition(" ")[0]) in _OPERATIONS_IN_NAMES:
            operation = word
        kind = "turn" if attributes.get(semconv.TURN) else _KINDS.get(operation)
        if (kind is None or operation is None) and text(attributes.get("llm.request.type")) in _REQUEST_TYPES:
            kind = "llm"
        if operation is None and tool and attributes.get(_MCP_METHOD) == _MCP_CALL:
            kind = "tool"
    if kind == "tool":
        tool = tool or _name_after(span, semconv.EXECUTE_TOOL)
        if tool in _NOT_TOOLS:
            kind = "other"
    elif kind == "agent":
        agent = agent or _name_after(span, semconv.INVOKE_AGENT)
    elif kind == "handoff":
        agent = text(attributes.get(semconv.HANDOFF_FROM))
    return kind, tool, agent


def _name_after(span: Span, operation: str) -> str | None:
    """Return the part of a span's name after the operation: `get_cart` of `execute_tool get_cart`."""
    return text(span.name[len(operation) + 1 :]) if span.name.startswith(f"{operation} ") else None


def _state(span: Span, attributes: Mapping[str, Any]) -> tuple[tuple[int, Mapping[str, Any]], ...]:
    writes = [(span.end_ns, attributes[semconv.STATE])] if semconv.STATE in attributes else []
    writes += [
        (event["time_ns"], event["attributes"].get(semconv.STATE))
        for event in span.events
        if event.get("name") == semconv.STATE
    ]
    values = [(time_ns, exact_json(value)) for time_ns, value in writes]
    return tuple((time_ns, value) for time_ns, value in values if isinstance(value, dict))


def _failure(span: Span, attributes: Mapping[str, Any], kind: Kind) -> SpanFailure | None:
    """Return a span's failure, if it records one."""
    failed, error = failure(span, attributes)
    if not failed and kind == "tool" and semconv.TOOL_CALL_RESULT not in attributes:
        error = _cancelled(span)
        failed = error is not None
    if not failed or langchain_values.only_hands_over(span):
        return None
    raised = any(event.get("name") == "exception" for event in span.events)
    return SpanFailure(error, raised, _is_cut_off(span, attributes))


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


def _messages(
    attributes: Mapping[str, Any], shape: _Shape, conversation_id: str | None
) -> tuple[History | None, Any, Any]:
    """Return the request as a history, if it is one, its messages and those of the output; None for none."""
    inputs = attributes[shape["inputs"]] if shape["inputs"] else None
    outputs = parse_json(attributes[shape["outputs"]]) if shape["outputs"] else None
    history = None
    if isinstance(inputs, str):
        history = history_of(inputs, conversation_id)
        inputs = parse_json(inputs) if history is None else history.messages
    if isinstance(inputs, str):
        inputs = [{"role": "user", "content": inputs}]
    if isinstance(outputs, str):
        outputs = [{"role": "assistant", "content": outputs}]
    return history, inputs, outputs


def _of_io(kind: Kind | None, given: Any, returned: Any) -> dict[str, Any]:
    """Return under the conventions' names what a model or a tool was given and returned."""
    if kind == "llm":
        return provider_values.exchange(given, returned)
    if kind == "tool":
        return {semconv.TOOL_CALL_ARGUMENTS: run_io.arguments(given), semconv.TOOL_CALL_RESULT: returned}
    return {}


def reader(dialect: Dialect) -> Read:
    """Return the function that reads a span of a dialect."""
    if dialect.read is not None:
        return dialect.read
    tell_kind, values, fixes, alone = dialect.kind, dialect.values, dialect.fixes, dialect.alone
    renamed = renaming(dialect.names) if dialect.names else None
    fix_any, has_io = fixes.get(None), bool(dialect.inputs or dialect.outputs)
    differs = tell_kind or values or renamed or fixes or has_io or alone or dialect.named_by_span
    if not differs:
        return lambda span, logs: read_attributes(span, with_events(span, logs))

    def read(span: Span, logs: Sequence[LogRecord]) -> Observation:
        attributes = with_events(span, logs)
        kind = None if tell_kind is None else tell_kind(span, attributes)
        own = {} if renamed is None else renamed(attributes)
        if has_io:
            io = [parse_json(first_of(attributes, names)) for names in (dialect.inputs, dialect.outputs)]
            if kind == "tool":
                io[0] = run_io.tool_input(first_of(attributes, dialect.inputs))
            own = _of_io(kind, *io) | own
        if kind in dialect.named_by_span:
            named = without_operation(span.name)
            own[semconv.TOOL_NAME if kind == "tool" else semconv.AGENT_NAME] = named
        if values is not None:
            own |= values(span, attributes, kind)
        given = own if alone else {**attributes, **own} if own else attributes
        observation = read_attributes(span, given, kind)
        if has_io and isinstance(observation, RunSpan):
            observation = run_io.with_io(observation, *io, topmost=span.parent_span_id is None)
        elif has_io and isinstance(observation, ToolUse):
            observation = run_io.with_tool_output(observation, io[1])
        if fix_any is not None:
            observation = fix_any(observation, span, attributes)
        fix = fixes.get(kind_of(observation)) if fixes else None
        return observation if fix is None else fix(observation, span, attributes)

    return read


DIALECT = Dialect(
    name="genai",
    advice_by_scope={
        "agent_framework": Advice(
            name="MS Agent Framework",
            content=f"set {AGENT_FRAMEWORK.settings}",
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
