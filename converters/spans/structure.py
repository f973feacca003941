"""Spans that no dialect understands, read by the names and shapes of their attributes.

An instrumentation that follows no convention still has an attribute for the kind of a span
(`acme.span.type: "tool"`), with the inputs and outputs beside it, and a model call has a model with tokens or
messages. What is found is given to the reader of the conventions under the conventions' names. Where two
attributes could be meant, or a word is not known, nothing is read: unknown is not a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from spangrade.converters.spans import (
    flattened,
    provider_values,
    run_io,
    token_counts,
)
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.messages import read_exchange
from spangrade.converters.spans.observation import (
    NO_TOKENS,
    Kind,
    MessageExchange,
    ModelCall,
    Observation,
    RunSpan,
    Structure,
    ToolUse,
    changed,
)
from spangrade.converters.spans.values import first_text, json_object, json_text, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

# What the value of an attribute for a span's kind says; None is known not to be a step of a session.
_WORDS: dict[str, Kind | None] = {
    **dict.fromkeys(("llm", "chat", "generation", "completion", "chat_completion", "chat_model"), "llm"),
    **dict.fromkeys(("model", "inference"), "llm"),
    **dict.fromkeys(("tool", "function"), "tool"),
    "agent": "agent",
    **dict.fromkeys(("chain", "workflow"), "workflow"),
    **dict.fromkeys(("retriever", "retrieval", "embedding", "embeddings", "reranker", "rerank"), None),
    **dict.fromkeys(("evaluator", "guardrail", "eval", "score", "usage"), None),
}
# The scopes of those whose runs are known to record the tokens of their own run alone.
_OF_OWN_RUNS = frozenset({"@voltagent/core"})
# What may follow a word: `tool_invocation`, `llm_call`, `agent_run`.
_OF_WORD = re.compile(r"_(?:call|invocation|execution|run|use)$")
_KIND = re.compile(
    r"(?:^|[._])(?:span|observation|run|step|event)[._](?:kind|type)$|[._]span[._]attributes[._]type$|^type$"
)
# Of what a span belongs to, which is the kind of a span that has no kind of its own (VoltAgent).
_ENTITY = re.compile(r"(?:^|[._])entity[._]type$")
_MODEL = re.compile(r"(?:^|[._])model(?:[._](?:name|id))?$")
# Models of machines, and of what is not a call of a language model.
_OTHER_MODEL = re.compile(r"(?:^|[._])(?:device|host|cpu|os|hardware|embedding|embedder|reranker)[._]")
_USAGE = re.compile(r"(?:^|[._])(?:usage|metrics)$")
_INPUT = re.compile(
    r"(?:^|[._])(?:(?:input|prompt)(?:[._](?:value|messages|text))?|inputs|messages|chat_history|arguments|args|"
    r"parameters)$"
)
_OUTPUT = re.compile(
    r"(?:^|[._])(?:(?:output|completion|response|return)(?:[._](?:value|messages|text|content))?|"
    r"outputs(?:[._]content)?|"
    r"result)$"
)
# Names that say less, for spans that have none of those.
_LOOSE_INPUT = re.compile(r"(?:^|[._])(?:question|query|request|user_(?:message|prompt|query))$")
_LOOSE_OUTPUT = re.compile(r"(?:^|[._])(?:answer|reply)$")
# One argument of several, each in an attribute of its own.
_ARGUMENT = re.compile(r"^(.*\b(?:\w+_)?(?:inputs?|arguments|args|kwargs|parameters)(?:\._params_)?)\.(\w+)$")
_NOT_ARGUMENTS = frozenset({"value", "mime_type", "self", "role", "type"})
# Attributes that hold further ones as JSON (Braintrust).
_HOLDS = re.compile(r"(?:^|[._])(?:span[._]attributes|metadata|metrics|config)$")
_ARGUMENTS = re.compile(r"(?:^|[._])(?:arguments|args)$")
_TOOL_NAME = re.compile(r"(?:^|[._])(?:tool|function)[._]name$")
_ENTITY_NAME = re.compile(r"(?:^|[._])entity[._]name$")
_AGENT_NAME = re.compile(r"(?:^|[._])agent[._]name$")
_CALL_ID = re.compile(r"(?:^|[._])(?:tool[._])?(?:call|use)[._]id$|(?:^|[._])function[._]id$")
_PROVIDER = re.compile(r"(?:^|[._])(?:provider(?:[._]name)?|llm[._](?:vendor|system))$")
_CACHED = ("cached_input_tokens", "cache_write_tokens")
_FLAT = re.compile(r"^(.+)\.0\.(?:message\.)?(?:role|content)$")
_FLAT_OUTPUT = re.compile(r"output|completion|response")
# Attributes of transports and of code, whose inputs and outputs are not an agent's.
_FOREIGN = re.compile(
    r"^(?:http|db|rpc|url|net|network|server|client|messaging|code|thread|process|faas|aws|k8s)\."
)
_UPPER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FIRST_WORD = re.compile(r"[^._]*")
_WRAPPED = ({"type", "value"}, {"value"})
_OF_CONVENTIONS = "gen_ai."
_OF_MODELS = re.compile(r"(?:^|[._])(?:llm|model)[._]")
# Names of spans of what a tool did, inside the tool's own.
_OUTCOME = re.compile(r"[._](?:tool_result|execution)$")


class _Layout(NamedTuple):
    """A span's attributes by the field that each may record, as their names tell."""

    kinds: tuple[str, ...]
    models: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tokens: tuple[str, ...]
    usages: tuple[str, ...]
    tool_names: tuple[str, ...]
    agent_names: tuple[str, ...]
    call_ids: tuple[str, ...]
    providers: tuple[str, ...]
    flat_inputs: tuple[str, ...]
    flat_outputs: tuple[str, ...]


@lru_cache(maxsize=1024)
def _layout(keys: tuple[str, ...]) -> _Layout:
    """Return the fields that attributes may record."""
    names = {key: _normalized(key) for key in keys if not _FOREIGN.match(key)}

    def named(pattern: re.Pattern[str]) -> tuple[str, ...]:
        return tuple(key for key, name in names.items() if pattern.search(name))

    kinds = named(_KIND) or named(_ENTITY)
    models = tuple(key for key in named(_MODEL) if not _OTHER_MODEL.search(names[key]))
    flat = [found[1] for key in keys if (found := _FLAT.match(key))]
    outputs = [prefix for prefix in flat if _FLAT_OUTPUT.search(prefix)]
    return _Layout(
        kinds,
        tuple(sorted(models, key=lambda key: ("response" not in key, "request" not in key))),
        named(_INPUT) or named(_LOOSE_INPUT),
        named(_OUTPUT) or named(_LOOSE_OUTPUT),
        tuple(token_counts.named(names)),
        named(_USAGE),
        named(_TOOL_NAME),
        named(_AGENT_NAME) or named(_ENTITY_NAME),
        named(_CALL_ID),
        named(_PROVIDER),
        tuple(dict.fromkeys(prefix for prefix in flat if prefix not in outputs)),
        tuple(dict.fromkeys(outputs)),
    )


def _normalized(key: str) -> str:
    return _UPPER.sub("_", key).lower().removesuffix("_json")


@lru_cache(maxsize=1024)
def _holding(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(key for key in keys if _HOLDS.search(_normalized(key)))


def _with_held(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return attributes with those that one of them holds as a JSON object."""
    holding = _holding(tuple(attributes))
    if not holding:
        return attributes
    held = {f"{key}.{name}": v for key in holding for name, v in json_object(attributes[key]).items()}
    return {**held, **attributes}


def read_by_structure(span: Span, attributes: Mapping[str, Any]) -> Observation | None:
    """Return a span read by the structure of its attributes; None if they show no step.

    `by_shape` is set for a model call that no attribute calls one: it counts only where a trace has no other
    (see `derive.passes`).
    """
    attributes = _with_held(attributes)
    layout = _layout(tuple(attributes))
    if not (layout.kinds or layout.models or layout.tool_names):
        return None
    found = _kind(layout, attributes)
    if found is None:
        return _tool_by_content(span, attributes, layout) or _llm(span, attributes, layout, "")
    kind, named_by = found
    if kind is None:
        return None
    read = _READERS[kind]
    return read(span, attributes, layout, named_by)


def outcome_of_tool(structure: Structure, span: Span) -> ToolUse | None:
    """Return the tool's result in a span such as `acme.tool_result` below it; None for other spans.

    It has no name of its own, and counts only directly below the span of a tool (see `derive.passes`).
    """
    if span.parent_span_id is None or _OUTCOME.search(span.name) is None:
        return None
    layout = _layout(tuple(span.attributes))
    result = next((value for _, value in _values(span.attributes, layout.outputs, "")), None)
    failed = structure.failure is not None or span.attributes.get("success") in (False, "false")
    if result is None and not failed:
        return None
    error = (structure.failure and structure.failure.error) or text(span.attributes.get("error"))
    tool = ToolUse(*structure, result=json_text(run_io.python_value(result)))
    return changed(tool, by_content=True, failed=failed, error=error)


# Names for what the user asked and what was answered, of which a span must have both.
_PAIRS = (("question", "answer"), ("prompt", "completion"), ("input", "output"), ("llm_input", "llm_output"))


@lru_cache(maxsize=1024)
def _pair(keys: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the names of a question and its answer, which differ in their last word alone."""
    names = {_normalized(key): key for key in keys if not _FOREIGN.match(key)}
    for asked, answered in _PAIRS:
        for name, key in names.items():
            prefix, dot, last = name.rpartition(".")
            if last == asked and (other := names.get(f"{prefix}{dot}{answered}")) is not None:
                return key, other
    return None


def asked_and_answered(structure: Structure, span: Span) -> RunSpan | None:
    """Return an outermost span of no convention as the run of a turn, by a question and its answer.

    It counts only in a trace that has a model call, a tool or tokens (see `derive.passes`).
    """
    names = _pair(tuple(span.attributes)) if span.parent_span_id is None else None
    if names is None:
        return None
    asked, answered = (parse_json(span.attributes[name]) for name in names)
    given, said = run_io.user_input(asked, topmost=True), run_io.response(answered, topmost=True)
    if given is None or said is None:
        return None
    run = RunSpan(*structure, run_input=given, run_output=said)
    return run._replace(traits=run.traits | {"inferred"})


def has_kind(attributes: Mapping[str, Any]) -> bool:
    """Return whether a span has an attribute for its kind, whatever that says."""
    return bool(_layout(tuple(attributes)).kinds)


@lru_cache(maxsize=1024)
def _other_layout(names: tuple[str, ...]) -> _Layout:
    """Return where attributes that are not of the conventions have what is looked for."""
    return _layout(tuple(name for name in names if not name.startswith(_OF_CONVENTIONS)))


def completed_by_structure(observation: Observation, span: Span) -> Observation:
    """Return an observation of a known kind with the contents that a span has under names of its own.

    Names of the conventions are left out: what they hold is read already, or is not what they are for.
    """
    if isinstance(observation, ToolUse):
        if None not in (observation.arguments, observation.result):
            return observation
    elif (
        not isinstance(observation, ModelCall | RunSpan)
        or observation.failure is not None
        or _is_known(observation.exchange)
        or (isinstance(observation, RunSpan) and not observation.is_agent)
    ):
        return observation
    layout = _other_layout(tuple(span.attributes))
    if isinstance(observation, ToolUse):
        return _with_contents(observation, span.attributes, layout, "")
    if not (layout.inputs or layout.outputs or layout.flat_inputs or layout.flat_outputs):
        return observation
    if isinstance(observation, ModelCall):
        inputs, outputs = _exchanged(span.attributes, layout, (*layout.inputs, *layout.outputs, "")[0])
        return observation._replace(exchange=read_exchange(inputs or None, outputs or None))
    return _with_said(observation, span.attributes, layout, "")


def _is_known(exchange: MessageExchange) -> bool:
    """Return whether an input or an answer of a model or an agent is read."""
    return bool(
        exchange.user_input or exchange.tool_calls or exchange.tool_results or exchange.response is not None
    )


def _kind(layout: _Layout, attributes: Mapping[str, Any]) -> tuple[Kind | None, str] | None:
    """Return the kind that an attribute names, and the attribute; None if there is none with a known word.

    Two attributes that name different kinds name none.
    """
    found = [(_WORDS[word], key) for key in layout.kinds if (word := _word(attributes[key])) in _WORDS]
    return found[0] if found and len({kind for kind, _ in found}) == 1 else None


def kind_in_word(value: Any) -> Kind | None:
    """Return the kind that a word names; None for any other word, and for one that names no step."""
    return _WORDS.get(_word(value))


def _word(value: Any) -> str:
    """Return a word for a kind in its plain form, also of `SpanKind.TOOL`, the `str()` of an enum."""
    if not isinstance(value, str):
        return ""
    return _OF_WORD.sub("", value.rpartition(".")[2].lower().replace("-", "_").replace(" ", "_"))


def _values(attributes: Mapping[str, Any], keys: Iterable[str], named_by: str) -> Iterator[tuple[str, Any]]:
    """Yield the values of attributes, those of the vendor that names the span's kind first."""
    vendor = _vendor(named_by)
    for key in sorted(keys, key=lambda key: (_vendor(key) != vendor, len(key))):
        value = parse_json(attributes[key])
        if isinstance(value, dict) and value.keys() in _WRAPPED:
            value = value["value"]
        if value is not None and value != "":
            yield key, value


def _vendor(key: str) -> str:
    """Return the first word of an attribute's name."""
    found = _FIRST_WORD.match(key)
    return found[0] if found else ""


def _llm(span: Span, attributes: Mapping[str, Any], layout: _Layout, named_by: str) -> Observation | None:
    inputs, outputs = _exchanged(attributes, layout, named_by)
    tokens = _tokens(attributes, layout)
    model = first_text(_plain(attributes[key]) for key in layout.models)
    by_shape = not named_by
    if by_shape and (model is None or not (tokens or _has_roles(inputs) or _has_roles(outputs))):
        return None
    own = {semconv.INPUT_MESSAGES: inputs or None, semconv.OUTPUT_MESSAGES: outputs or None}
    call = genai.read_attributes(span, {**attributes, **own}, "llm")
    if not isinstance(call, ModelCall):
        return None
    read = call.tokens._asdict()
    missing = {name: number for name, number in tokens.items() if read[name] is None}
    call = changed(
        call,
        model=call.model or model,
        provider=call.provider or first_text(attributes[key] for key in layout.providers),
        by_shape=by_shape,
        **missing,
    )
    counts = {name: n for name, n in call.tokens._asdict().items() if n is not None}
    if not token_counts.are_plausible(counts):
        return changed(call._replace(tokens=NO_TOKENS), doubtful_tokens=True)
    if not missing.keys().isdisjoint(_CACHED):
        names = (call.provider, call.model)
        return changed(call, **token_counts.placed(span.scope_name, attributes, counts, *names))
    return call


def _plain(value: Any) -> Any:
    """Return the text that a JSON text is (MLflow), else the value."""
    parsed = parse_json(value)
    return parsed if isinstance(parsed, str) else value


def _exchanged(
    attributes: Mapping[str, Any], layout: _Layout, named_by: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the messages that a model got, and those that it gave."""
    return (
        _messages(attributes, layout.flat_inputs, layout.inputs, named_by, provider_values.request_messages),
        _messages(
            attributes, layout.flat_outputs, layout.outputs, named_by, provider_values.response_messages
        ),
    )


def _tokens(attributes: Mapping[str, Any], layout: _Layout) -> dict[str, Any]:
    tokens: dict[str, Any] = {}
    for key in layout.usages:
        tokens |= provider_values.tokens(json_object(attributes[key]))
    if not layout.usages and not layout.tokens:
        for key in layout.outputs:
            tokens |= provider_values.tokens(provider_values.usage_of(parse_json(attributes[key])))
    return tokens | token_counts.quantities({key: attributes[key] for key in layout.tokens})


def _messages(
    attributes: Mapping[str, Any],
    flat: Iterable[str],
    keys: Iterable[str],
    named_by: str,
    messages_of: Callable[[Any], list[dict[str, Any]]],
) -> list[dict[str, Any]]:
    """Return the messages of a model call: those with roles, else the text of the kind's vendor."""
    listed = [message for prefix in flat for message in flattened.any_messages(attributes, f"{prefix}.")]
    if listed:
        return listed
    texts: list[dict[str, Any]] = []
    for key, value in _values(attributes, keys, named_by):
        messages = messages_of(value)
        if not isinstance(value, str) and _has_roles(messages):
            return messages
        if isinstance(value, str) and named_by and _vendor(key) == _vendor(named_by):
            texts = texts or messages
    return texts


def _has_roles(messages: Iterable[Mapping[str, Any]]) -> bool:
    return any(isinstance(message.get("role"), str) for message in messages)


def _tool(span: Span, attributes: Mapping[str, Any], layout: _Layout, named_by: str) -> Observation | None:
    named = first_text(attributes[key] for key in layout.tool_names)
    call_id = first_text(attributes[key] for key in layout.call_ids)
    own = {semconv.TOOL_NAME: named, semconv.TOOL_CALL_ID: call_id}
    tool = genai.read_attributes(span, {**attributes, **own}, "tool")
    if not isinstance(tool, ToolUse):
        return tool
    tool = _with_contents(tool, attributes, layout, named_by)
    known = tool.arguments is not None or tool.result is not None
    return tool if known or (named and call_id) else None


def _of_tools(keys: Iterable[str]) -> list[str]:
    """Return the names that may be a tool's, not a model's (`llm_response`, which ADK puts on every span)."""
    return [key for key in keys if _OF_MODELS.search(_normalized(key)) is None]


def _with_contents(tool: ToolUse, attributes: Mapping[str, Any], layout: _Layout, named_by: str) -> ToolUse:
    """Return a tool's call with its arguments and its result, where they are not read yet."""
    if tool.arguments is None:
        arguments: Any = _single_arguments(attributes)
        if not arguments:
            inputs = list(_values(attributes, _of_tools(layout.inputs), named_by))
            inputs.sort(key=lambda item: _place_of_input(item[0]))
            arguments = run_io.arguments(inputs[0][1]) if inputs else None
        tool = tool._replace(arguments=json_text(arguments))
    output = next((value for _, value in _values(attributes, _of_tools(layout.outputs), named_by)), None)
    if tool.result is None and output is not None:
        tool = tool._replace(result=json_text(run_io.python_value(output)))
        tool = run_io.with_tool_output(tool, output)
    return tool


def _single_arguments(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that attributes record one by one (`inputs.customer_id`); none for other forms."""
    found: dict[str, Any] = {}
    prefixes = set()
    for key, value in attributes.items():
        if (match := _ARGUMENT.match(key)) and match[2] not in _NOT_ARGUMENTS and not _FOREIGN.match(key):
            prefixes.add(match[1])
            found[match[2]] = parse_json(value)
    return found if len(prefixes) == 1 else {}


def _tool_by_content(span: Span, attributes: Mapping[str, Any], layout: _Layout) -> Observation | None:
    """Return the call of a tool that has a name, and an id or both arguments and a result; None without."""
    called = first_text(attributes[key] for key in layout.call_ids)
    if first_text(attributes[key] for key in layout.tool_names) is None or (
        called is None and not (layout.inputs and layout.outputs)
    ):
        return None
    tool = _tool(span, attributes, layout, layout.tool_names[0])
    return tool._replace(traits=tool.traits | {"by_content"}) if isinstance(tool, ToolUse) else tool


def _place_of_input(key: str) -> int:
    """Return the place of an attribute among those that may have a tool's arguments; some have its schema."""
    return 0 if _ARGUMENTS.search(key) else 2 if key.endswith("parameters") else 1


def _agent(span: Span, attributes: Mapping[str, Any], layout: _Layout, named_by: str) -> RunSpan | None:
    name = first_text(attributes[key] for key in layout.agent_names)
    return _run(span, {**attributes, semconv.AGENT_NAME: name}, layout, named_by, "agent")


def _workflow(span: Span, attributes: Mapping[str, Any], layout: _Layout, named_by: str) -> RunSpan | None:
    run = _run(span, attributes, layout, named_by, "workflow")
    return None if run is None else run._replace(traits=run.traits | {"only_topmost"})


def _run(
    span: Span, attributes: Mapping[str, Any], layout: _Layout, named_by: str, kind: Kind
) -> RunSpan | None:
    if not any(_values(attributes, (*layout.inputs, *layout.outputs), named_by)):
        return None
    run = genai.read_attributes(span, attributes, kind)
    if not isinstance(run, RunSpan):
        return None
    own_run = span.scope_name in _OF_OWN_RUNS
    run = changed(run, **_tokens(attributes, layout), counts_its_calls=True, own_run=own_run)
    return _with_said(run, attributes, layout, named_by)


def _with_said(run: RunSpan, attributes: Mapping[str, Any], layout: _Layout, named_by: str) -> RunSpan:
    """Return a run with its user's message and its reply.

    A bare text is the user's message or the reply only of a run that is an agent's.
    """
    inputs = [value for _, value in _values(attributes, layout.inputs, named_by)]
    outputs = [value for _, value in _values(attributes, layout.outputs, named_by)]
    run = changed(
        run,
        user_input=run.exchange.user_input or first_text(run_io.user_input(v, topmost=False) for v in inputs),
        response=run.exchange.response or first_text(run_io.response(v, topmost=False) for v in outputs),
    )
    if not run.is_agent:
        return run
    return run._replace(
        run_input=first_text(run_io.user_input(v, topmost=True) for v in inputs),
        run_output=first_text(run_io.response(v, topmost=True) for v in outputs),
    )


_READERS: Mapping[Kind, Callable[[Span, Mapping[str, Any], _Layout, str], Observation | None]] = {
    "llm": _llm,
    "tool": _tool,
    "agent": _agent,
    "workflow": _workflow,
}
