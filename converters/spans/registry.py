"""The installed dialects, in the order in which they are tried: the first that claims a span reads it.

The observations by other packages' dialects are checked; our own are checked by mypy and by tests. What makes
the stack of a span record more stands in its dialect, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from graphlib import TopologicalSorter
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import orjson

from spangrade.converters.spans.agents import (
    declaring_in,
    is_other_operation,
    looks_like_an_agents,
    with_agent,
)
from spangrade.converters.spans.dialect import GENAI_CONTENT, Advice, Dialect, Read, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.evaluations import evaluations_of
from spangrade.converters.spans.events import with_logs
from spangrade.converters.spans.histories import forget_histories
from spangrade.converters.spans.observation import (
    TYPES,
    Digests,
    MessageCall,
    MessageExchange,
    ModelCall,
    Notes,
    Observation,
    RunSpan,
    SessionContext,
    SpanFailure,
    SpanRef,
    Structure,
    TokenCounts,
    ToolResult,
    ToolUse,
    TurnSpan,
    changed,
    kind_of,
    structure_of,
)
from spangrade.converters.spans.outcomes import is_interrupted
from spangrade.converters.spans.parts import is_answer
from spangrade.converters.spans.session_attributes import session_candidates, session_of
from spangrade.converters.spans.structure import (
    asked_and_answered,
    completed_by_structure,
    has_kind,
    outcome_of_tool,
    read_by_structure,
)
from spangrade.converters.spans.values import NO_ARGUMENTS, WITHOUT_ARGUMENTS, identity, text
from spangrade.converters.spans.vendor import Vendor, dialect_of_vendor
from spangrade.tracer import semconv
from spangrade.tracer.base.canonical_json import json_value
from spangrade.tracer.base.errors import type_name
from spangrade.tracer.base.plugins import Plugin, plugins
from spangrade.tracer.span import LogRecord, Span

GROUP = "spangrade.dialects"
FALLBACK = "genai"
_OURS = "spangrade."  # the package of our own
_OF_CALLS = frozenset({semconv.INPUT_MESSAGES, semconv.OUTPUT_MESSAGES, semconv.INPUT_TOKENS})
_NOTED = {semconv.UNFINISHED: "unfinished", semconv.DRIVEN: "driven"}
_OF_BUSES = frozenset({"messaging.system", "messaging.operation", "messaging.destination"})
# The attributes that say a span's kind, and what they say of one that checks what an agent was told or said.
_KINDS = re.compile(
    r"(?:^|[._])(?:span|observation|run|step|event)[._]?(?:kind|type)$|operation\.name$", re.I
)
_CHECKS = frozenset(
    form
    for word in ("apply_guardrail", "evaluate", "evaluation", "evaluator", "guardrail", "guardrail_check")
    for name in (word, word.upper(), word.capitalize(), f"SpanKind.{word.upper()}")
    for form in (name, f'"{name}"')
)
_OF_CHECKS = re.compile(r"(?<![a-z])guardrails?(?![a-z])")  # in the names of other spans
_TOKENS = "token"  # in the name of an attribute that counts tokens
_MAX_SIGNS = 4096  # combinations of names whose candidates are remembered

# https://opentelemetry.io/docs/specs/otel/trace/tracestate-handling/: a threshold above 0 drops traces.
# The other two are the tracer's (tracer/sampling.py).
_SAMPLED = re.compile(r"(^|,)\s*(ot=([^,]*;)?th:0*[1-9a-f]|spangrade=partial)")
_SAMPLE_RATIO = re.compile(r"(?:^|,)\s*spangrade=conversation:(0\.\d+|[01]|[1-9](?:\.\d+)?e-\d+)\s*(?:,|$)")
Lack = Literal["content", "replies", "conversation", "agents", "tools", "model_calls", "tokens", "state"]

_OF_CONTENTS = ("content", "replies")
_STATE = "call spangrade.set_state(), or record a spangrade.state event on any span"
_BY_HAND = (
    "put gen_ai.input.messages and gen_ai.output.messages, or gen_ai.tool.call.arguments and "
    "gen_ai.tool.call.result, on the spans"
)
# What can be done in any stack: a span, or an attribute of one.
ANY = Advice(
    name="the GenAI conventions",
    content=GENAI_CONTENT,
    conversation="put gen_ai.conversation.id on the spans",
    agents="record gen_ai.agent.name on a span around each agent's run",
    tools="record an execute_tool span around each tool call",
    model_calls="instrument the model client, or switch on the framework's own spans of model calls",
    tokens="record gen_ai.usage.input_tokens and gen_ai.usage.output_tokens; for streamed answers "
    "some model clients report usage only on request",
    state=_STATE,
)
_CHECKED_KINDS = tuple(dict.fromkeys(TYPES.values()))
_GROUPS = (SpanRef, SessionContext, Notes, SpanFailure, MessageExchange, TokenCounts)


@cache
def dialects() -> Mapping[str, Dialect]:
    """Return the installed dialects by name, in the order in which they are tried.

    Those of other packages come first, by name; then spangrade's own, each before those of its `before`, else
    by name; `FALLBACK` reads the rest. Raises InputError if one cannot be loaded or is not a dialect, or if
    two have the same name.
    """
    found: dict[str, Dialect] = {}
    for plugin in plugins(GROUP):
        if plugin.name in found:
            raise plugin.error("another dialect has the same name")
        found[plugin.name] = _dialect(plugin)
    ours = {name: each for name, each in found.items() if name in own_names()}
    others = (name for name in found if name not in ours)
    return {name: found[name] for name in (*others, *_in_order(ours))}


@cache
def own_names() -> frozenset[str]:
    """Return the names of spangrade's own dialects."""
    return frozenset(plugin.name for plugin in plugins(GROUP) if plugin.point.value.startswith(_OURS))


def dialect_of(span: Span, vendors: Sequence[Vendor] = ()) -> Dialect:
    """Return the dialect that reads a span; those of `vendors` come before the installed ones."""
    tried = (*map(dialect_of_vendor, vendors), *dialects().values())
    is_tracers = span.scope_name == semconv.SCOPE
    return next(each for each in tried if each.claims(span) and not (is_tracers and _gives_way(each)))


def _gives_way(dialect: Dialect) -> bool:
    """Return whether a dialect does not read the tracer's own spans.

    They follow the conventions whatever attributes a user adds to them.
    """
    return dialect.name in own_names() and dialect.name != FALLBACK


def _dialect(plugin: Plugin) -> Dialect:
    """Return the dialect of an entry point: a module's `DIALECT`, or the value itself."""
    loaded: Any = plugin.load()
    dialect = getattr(loaded, "DIALECT", loaded)
    if not isinstance(dialect, Dialect):
        raise plugin.error("expected a module with DIALECT, a Dialect of spangrade.converters.spans.dialect")
    if not isinstance(dialect.signs, Signs | None):
        raise plugin.error("expected its signs to be a Signs of spangrade.converters.spans.dialect")
    return dialect._replace(name=plugin.name)


def _in_order(ours: Mapping[str, Dialect]) -> Iterator[str]:
    """Yield the names of dialects, each before those that it names, else by name; the fallback last."""
    after: dict[str, set[str]] = {name: set() for name in ours}
    for name, dialect in ours.items():
        for later in dialect.before:
            after[later].add(name)
    after[FALLBACK] = after.keys() - {FALLBACK}
    sorter = TopologicalSorter(after)
    sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        yield from ready
        sorter.done(*ready)


class _Candidate(NamedTuple):
    dialect: Dialect
    read: Read
    is_ours: bool


class _Candidates:
    """The dialects that may claim a span, in their order: those whose signs it has, and those without signs.

    Trying each of 22 dialects took 3.6 µs per span, looking for signs takes 0.9.
    """

    def __init__(self, tried: Sequence[Dialect]) -> None:
        own = own_names()
        self._all = [_Candidate(dialect, genai.reader(dialect), dialect.name in own) for dialect in tried]
        signs = [dialect.signs for dialect in tried if dialect.signs is not None]
        self._attributes = frozenset[str]().union(*(each.attributes for each in signs))
        self._name_prefixes = tuple(prefix for each in signs for prefix in each.name_prefixes)
        self._with_signs_of = lru_cache(_MAX_SIGNS)(self._with)

    def of(self, span: Span, attributes: tuple[str, ...]) -> Sequence[_Candidate]:
        """Return the dialects that may claim a span, given the names of its attributes."""
        named = span.name if span.name.startswith(self._name_prefixes) else ""
        return self._with_signs_of(span.scope_name, attributes, named)

    def _with(self, scope: str | None, attributes: tuple[str, ...], name: str) -> Sequence[_Candidate]:
        of_signs = dict.fromkeys(self._attributes.intersection(attributes))
        signs = Span("", "", None, name, "INTERNAL", 0, 0, attributes=of_signs, scope_name=scope)
        return [
            each
            for each in self._all
            if (each.dialect.signs is None or each.dialect.signs.are_on(signs))
            and not (scope == semconv.SCOPE and _gives_way(each.dialect))
        ]


def observe(
    spans: Iterable[Span],
    logs: Mapping[tuple[str, str], Sequence[LogRecord]],
    vendors: Sequence[Vendor] = (),
) -> list[Observation]:
    """Return the observations of spans, each with the logs recorded under its (trace id, span id).

    The dialects of `vendors` come before the installed ones. A span that a dialect fails to read is a
    `Structure`, and `unreadable` gives the reason.
    """
    candidates = _Candidates([*map(dialect_of_vendor, vendors), *dialects().values()])
    observed = [_observed(span, logs.get((span.trace_id, span.span_id), ()), candidates) for span in spans]
    forget_histories()
    return observed


def _observed(span: Span, logs: Sequence[LogRecord], candidates: _Candidates) -> Observation:
    if span.scope_name == semconv.SCOPE_OF_USER:
        return _of_simulated_user(span)
    name = FALLBACK
    observation: Observation
    try:
        names = tuple(span.attributes)
        for candidate in candidates.of(span, names):
            name = candidate.dialect.name
            if candidate.dialect.only_if is None or candidate.dialect.only_if(span):
                break
        observation = candidate.read(span, logs)
        if not candidate.is_ours:
            observation = checked(observation, span)
        if name == FALLBACK:
            observation = _by_structure(observation, span)
        elif candidate.is_ours and not candidate.dialect.repeats_calls and _holds_no_call(observation):
            observation = _not_lowered(observation, span)
        observation = _completed(observation, span, logs, name, _extras(names))
    except (Exception, SystemExit) as error:  # noqa: BLE001 (third-party code: other packages' dialects)
        observation = _unreadable(span, name, error)
    if (evaluations := evaluations_of(span)) and observation.notes.unreadable is None:
        # A span that records a score and no step is understood.
        observation = changed(observation, evaluations=evaluations, not_understood=None)
    return _with_sampling(observation, span.trace_state) if span.trace_state else observation


def _holds_no_call(observation: Observation) -> bool:
    return isinstance(observation, Structure) or (
        isinstance(observation, RunSpan) and not observation.is_agent
    )


def _completed(
    observation: Observation, span: Span, logs: Sequence[LogRecord], dialect: str, extras: _Extras
) -> Observation:
    """Return an observation with the fields that are read alike in all dialects."""
    attributes = span.attributes
    declaring, counts, noted, kinds = extras
    observation = with_agent(observation, span, declaring)
    is_check = not _CHECKS.isdisjoint(map(str, map(attributes.get, kinds)))
    if is_check or (isinstance(observation, Structure) and _OF_CHECKS.search(span.name.lower())):
        observation = observation._replace(traits=observation.traits | {"is_check"})
    if isinstance(observation, ToolUse):
        observation = _of_tool(observation, span)
    if logs:
        observation = with_logs(observation, logs)
    session = session_of(observation, span)
    if session.conversation_id is None and (
        candidates := session_candidates(attributes, kind_of(observation), span.resource)
    ):
        session = session._replace(session_candidates=candidates)
    if session is not observation.session:
        observation = observation._replace(session=session)
    has_counts = counts and isinstance(observation, RunSpan | TurnSpan | ModelCall)
    if has_counts and (wrong := _negative_count(attributes, counts)):
        observation = changed(observation, unreadable=(dialect, wrong))
    return _with_noted(observation, attributes, noted) if noted else observation


def _of_tool(tool: ToolUse, span: Span) -> Observation:
    """Return a tool's call, as neither done nor failed where its span ended to wait for a person.

    A call that is the agent's answer is none.
    """
    if tool.name and is_answer(tool.name):
        return structure_of(tool)
    if tool.arguments in WITHOUT_ARGUMENTS:  # whatever a dialect unwrapped
        tool = tool._replace(arguments=NO_ARGUMENTS)
    failure = tool.failure
    if failure is None and span.status != "ERROR" and not span.events:
        return tool
    if not is_interrupted(span, failure and failure.error):
        return tool
    return tool._replace(failure=None, traits=tool.traits | {"interrupted"})


def _with_noted(observation: Observation, attributes: Mapping[str, Any], noted: Iterable[str]) -> Observation:
    """Return an observation with the notes that are read alike in all dialects."""
    for name in noted:
        if name in _NOTED:
            observation = changed(observation, **{_NOTED[name]: text(attributes[name])})
        elif name == semconv.FAULT and isinstance(observation, ToolUse):
            observation = observation._replace(fault=text(attributes[name]))
        elif name in _OF_BUSES and isinstance(observation, ModelCall):
            observation = observation._replace(traits=observation.traits | {"of_bus"})
    return observation


def _of_simulated_user(span: Span) -> Structure:
    """Return a simulated user's own span as structure: it records nothing of the agent."""
    attributes = span.attributes
    context = SessionContext(
        identity(attributes.get(semconv.CONVERSATION_ID)), text(attributes.get(semconv.QUESTION_ID))
    )
    message = text(attributes.get(semconv.SIMULATED_MESSAGE)) or ""
    simulated = Structure(SpanRef(*span[:3], *span[5:7]), context, Notes(simulated_message=message))
    return simulated._replace(session=session_of(simulated, span))


class _Extras(NamedTuple):
    """Attributes of a span: the one that may name its agent, and those of counts, notes and its kind."""

    declaring: str | None
    counts: tuple[str, ...]
    noted: tuple[str, ...]
    kinds: tuple[str, ...]


@lru_cache(maxsize=4096)
def _extras(names: tuple[str, ...]) -> _Extras:
    """Return what attributes of these names are for, beside what the dialects read."""
    return _Extras(
        declaring_in(names),
        tuple(name for name in names if _TOKENS in name.lower()),
        tuple(name for name in names if name in _NOTED or name == semconv.FAULT or name in _OF_BUSES),
        tuple(filter(_KINDS.search, names)),
    )


def _negative_count(attributes: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Return an error if one of a span's counts of tokens is negative."""
    for name in names:
        value = attributes[name]
        if isinstance(value, int | float) and value < 0:
            return f"ValueError: {name} is {value}"
    return None


def _not_lowered(observation: Observation, span: Span) -> Observation:
    """Return a span that is a model call by the conventions as one, whatever a dialect made of it."""
    attributes, session = span.attributes, observation.session
    if semconv.OPERATION_NAME not in attributes:
        return _by_content(observation, span) if isinstance(observation, Structure) else observation
    if _OF_CALLS.isdisjoint(attributes):
        return observation
    call = genai.read_attributes(span, attributes)
    if not isinstance(call, ModelCall):
        return observation
    if "by_content" in call.traits and not isinstance(observation, Structure):
        return observation
    return changed(
        call,
        conversation_id=call.session.conversation_id or session.conversation_id,
        user_id=call.session.user_id or session.user_id,
    )


def _by_content(structure: Structure, span: Span) -> Observation:
    """Return a span as a call by its content, where its dialect does not know the name of its kind."""
    is_known = is_other_operation(span.attributes) or structure.notes.sums_up is not None
    if is_known or not has_kind(span.attributes):
        return structure
    read = read_by_structure(span, span.attributes)
    if read is None or isinstance(read, Structure) or read.traits.isdisjoint(("by_shape", "by_content")):
        return structure
    return changed(
        read,
        conversation_id=read.session.conversation_id or structure.session.conversation_id,
        not_understood=structure.notes.not_understood,
    )


def _by_structure(observation: Observation, span: Span) -> Observation:
    """Return a span that no dialect understands, read by its structure; else marked as such.

    One that the conventions understand is completed by what it has under other names.
    """
    if not isinstance(observation, Structure):
        return observation if span.scope_name == semconv.SCOPE else completed_by_structure(observation, span)
    if outcome := outcome_of_tool(observation, span):
        return outcome
    if not is_other_operation(span.attributes):
        read = read_by_structure(span, span.attributes)
        if read is not None and "by_shape" not in read.traits:
            return read
        read = read or asked_and_answered(observation, span)
        if looks_like_an_agents(span):
            return changed(read or observation, not_understood=span.scope_name or "")
        return read or observation
    return observation


def _with_sampling(observation: Observation, trace_state: str) -> Observation:
    ratio = _SAMPLE_RATIO.search(trace_state)
    sampled = _SAMPLED.search(trace_state) is not None
    return changed(observation, sampled=sampled, sample_ratio=float(ratio[1]) if ratio else None)


def _unreadable(span: Span, dialect: str, error: BaseException) -> Structure:
    return Structure(SpanRef(*span[:3], *span[5:7]), notes=Notes(unreadable=(dialect, error_line(error))))


def error_line(error: BaseException) -> str:
    """Return an exception's type and message in one line of at most 300 characters."""
    message = " ".join(str(json_value(error)).split())
    name = type_name(error)
    return f"{name}: {message}"[:300] if message else name


@cache
def advice_by_scope() -> Mapping[str, Advice]:
    """Return the settings of the instrumentations that share a dialect, by the beginning of their scope."""
    return {scope: advice for each in dialects().values() for scope, advice in each.advice_by_scope.items()}


def stack_of(span: Span) -> Advice:
    """Return the stack that recorded a span: by the beginning of its scope's name, and by its dialect."""
    scope = span.scope_name or ""
    by_scope = advice_by_scope()
    scopes = [name for name in by_scope if scope.startswith(name)]
    own = by_scope.get(max(scopes, key=len, default=""), ANY)
    shared = dialect_of(span).advice or ANY
    if own is ANY or shared is ANY:
        return shared if own is ANY else own
    missing = {lack: text for lack, text in shared._asdict().items() if getattr(own, lack) is None}
    return own._replace(**missing)


def setting(span: Span | None, lack: Lack, *, partly: bool = False) -> str:
    """Return how to make the stack that recorded a span record a missing fact.

    Of an unknown stack, it is what helps any that follows the conventions. If it records a part of the
    contents, the setting for them is in force.
    """
    stack = ANY if span is None else stack_of(span)
    if partly and lack in _OF_CONTENTS and stack.replies is None:
        return _BY_HAND if stack is ANY else f"{stack.name} records other contents here: {_BY_HAND}"
    own: str | None = getattr(stack, lack)
    if lack == "replies" and own is None:
        own = stack.content
    if stack is ANY or own is not None:
        return f"{stack.name}: {own}" if stack is not ANY else own or ""
    general = _BY_HAND if lack in _OF_CONTENTS else getattr(ANY, lack)
    return f"{stack.name} has no setting for it: {general}"


def all_settings(spans: Iterable[Span | None], lack: Lack) -> str:
    """Return what `setting` says of each stack that recorded one of these spans."""
    return "; ".join(dict.fromkeys(setting(span, lack) for span in spans)) or setting(None, lack)


def _classes(record: type[Any]) -> Mapping[str, tuple[type[Any], ...]]:
    """Return the classes of the values of each field."""
    return {
        name: (get_origin(hint),)
        if get_origin(hint) in (tuple, frozenset)
        else tuple(get_origin(option) or option for option in (get_args(hint) or (hint,)))
        for name, hint in get_type_hints(record).items()
    }


_CLASSES = {record: _classes(record) for record in (*_CHECKED_KINDS, *_GROUPS)}
_RECORDS = (MessageCall, ToolResult, Digests)
_INTEGERS = range(-(2**63), 2**63)
_COUNTS = range(2**63)


def checked(observation: object, span: Span) -> Observation:
    """Return an observation; raise TypeError or ValueError if it is not one, or a field is wrong."""
    if not isinstance(observation, _CHECKED_KINDS):
        raise TypeError(f"expected an Observation, got a value of type {type(observation).__name__}")
    if observation.span[:2] != (span.trace_id, span.span_id):
        raise ValueError("the observation has the ids of another span")
    fields = dict(_checked_fields(observation))
    records = [
        *fields.get("tool_calls", ()),
        *fields.get("repeated_calls", ()),
        *fields.get("tool_results", ()),
    ]
    records += [fields["digests"]] if fields.get("digests") else []
    records += [record.result for record in records if isinstance(record, MessageCall) and record.result]
    for record in records:
        texts = record if isinstance(record, Digests) else record[:3]
        if not isinstance(record, _RECORDS) or not all(isinstance(field, str | None) for field in texts):
            raise TypeError(f"expected a record of texts, got {record!r:.80}")
    results = [record for record in records if isinstance(record, ToolResult)]
    if not all(isinstance(result.failed, bool | None) for result in results):
        raise TypeError("expected the mark of a tool's result as true, false or None")
    lists = (
        *fields["tags"],
        *fields["prompts"],
        *fields["session_candidates"],
        *fields.get("unread", ()),
    )
    if not all(type(one) is str for one in lists):
        raise TypeError("expected tags, prompts, candidates and types as texts")
    for one in (*fields.values(), *lists, *(field for record in records for field in record)):
        if isinstance(one, str):
            one.encode()  # half a surrogate pair cannot be stored
    for name in ("arguments", "result", "tool_declarations"):
        for value in (fields.get(name), *(getattr(record, name, None) for record in records)):
            if isinstance(value, str):
                orjson.loads(value)
    # Plain values: another process may get them.
    state = tuple((time_ns, json_value(variables)) for time_ns, variables in fields["state"])
    if not all(type(time_ns) is int and isinstance(variables, dict) for time_ns, variables in state):
        raise TypeError("expected state as (time in ns, variables)")
    return changed(observation, state=state)


def _checked_fields(record: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an observation, and of its groups; raise if one has a value of another type."""
    for name, classes in _CLASSES[type(record)].items():
        value = getattr(record, name)
        if type(value) not in classes:
            raise TypeError(f"{name} is of type {type(value).__name__}")
        if type(value) is int and value not in (_INTEGERS if name.endswith("_ns") else _COUNTS):
            raise ValueError(f"{name} is out of range")
        if isinstance(value, _GROUPS):
            yield from _checked_fields(value)
        elif name != "traits":
            yield name, value
