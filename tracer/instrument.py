"""Wrap an agent's conversations, turns, agents, tools and model calls in spans.

Each of `turn`, `agent`, `tool` and `llm_call` is a context manager and a decorator, for sync and async
functions and generators. Names and attributes follow the OpenTelemetry GenAI conventions. Without a tracer
provider (see `configure`) nothing is recorded. Nothing here raises into the agent.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, overload

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from spangrade.tracer import _messages, semconv
from spangrade.tracer._content import content_captured
from spangrade.tracer._operation import (
    CurrentSession,
    Operation,
    current,
    current_session,
    is_recording,
    never_raising,
)
from spangrade.tracer._responses import read_response
from spangrade.tracer.base.canonical_json import dumps, json_value, plain_text

F = TypeVar("F", bound=Callable[..., Any])
_modules_seen = 0  # the number of loaded modules when the last run of an agent began


class CurrentTurn(Operation):
    """One message of the user, and everything that the agent does in response."""

    opens_turn = True

    def __init__(self, user_input: str | None = None) -> None:
        super().__init__("turn", {semconv.TURN: True})
        self._user_input = user_input
        self._answered = False

    @never_raising
    def start(self, context: Context | None = None) -> None:
        """Open the span and record the user's text."""
        super().start(context)
        if self._user_input is not None:
            self._set_text(semconv.TURN_INPUT, self._user_input)

    @never_raising
    def respond(self, text: str) -> None:
        """Record the agent's answer; the last call wins."""
        self._answered = True
        self._set_text(semconv.TURN_OUTPUT, text)

    @never_raising
    def called(self, name_arguments: Callable[[], dict[str, Any]]) -> None:
        """Record the first text among the arguments as the user's, unless one was given."""
        if self._user_input is None and self.records_content:
            text = next((value for value in name_arguments().values() if isinstance(value, str)), None)
            if text is not None:
                self._set_text(semconv.TURN_INPUT, text)

    def yielded(self, item: Any) -> None:
        """Keep a text: it is a piece of the answer."""
        if isinstance(item, str) and self.records_content:
            self._yielded.append(item)

    @never_raising
    def returned(self, value: Any) -> None:
        """Record a returned text, or the yielded pieces of one, as the answer, unless one was recorded."""
        pieces = [value] if isinstance(value, str) else self._yielded
        if pieces and not self._answered:
            self.respond("".join(pieces))


class Agent(Operation):
    """One run of an agent."""

    def __init__(self, name: str, agent_id: str | None = None) -> None:
        attributes = {
            semconv.OPERATION_NAME: semconv.INVOKE_AGENT,
            semconv.AGENT_NAME: name,
            semconv.AGENT_ID: agent_id,
        }
        super().__init__(f"{semconv.INVOKE_AGENT} {plain_text(name)}", attributes)

    @never_raising
    def start(self, context: Context | None = None) -> None:
        """Open the span; switch on what the frameworks that were imported since record by themselves."""
        global _modules_seen
        if len(sys.modules) != _modules_seen and is_recording():
            from spangrade.tracer.frameworks import switch_on

            _modules_seen = len(sys.modules)
            switch_on(trace.get_tracer_provider())
        super().start(context)


class Tool(Operation):
    """One execution of a tool."""

    of_framework: ClassVar[bool] = False  # whether a framework makes the call, of any function

    def __init__(self, name: str, call_id: str | None = None) -> None:
        attributes = {
            semconv.OPERATION_NAME: semconv.EXECUTE_TOOL,
            semconv.TOOL_NAME: name,
            semconv.TOOL_TYPE: "function",
            semconv.TOOL_CALL_ID: call_id,
        }
        super().__init__(f"{semconv.EXECUTE_TOOL} {plain_text(name)}", attributes)
        self._name = plain_text(name)
        self._has_result = False

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the decorated function returns or, in a drill, what a fault makes of it."""
        session = current_session()
        faults = None if session is None else session.faults
        if faults is None or self._repeats_frameworks_call:
            return function(*args, **kwargs)
        fault = faults.next(self._name)
        if fault is None:
            return function(*args, **kwargs)
        self.span.set_attribute(semconv.FAULT, fault.kind)
        return fault.run(function, args, kwargs)

    @property
    def _repeats_frameworks_call(self) -> bool:
        outer = self.enclosing
        return isinstance(outer, Tool) and outer.of_framework and outer._name == self._name

    @never_raising
    def arguments(self, arguments: object = None, /, **named: object) -> None:
        """Record the arguments: one value, usually a mapping, or each by name."""
        self._set_json(semconv.TOOL_CALL_ARGUMENTS, named if arguments is None else arguments)

    @never_raising
    def result(self, value: object) -> None:
        """Record the result; the last call wins."""
        self._has_result = True
        self._set_json(semconv.TOOL_CALL_RESULT, value)

    @never_raising
    def called(self, name_arguments: Callable[[], dict[str, Any]]) -> None:
        """Record the arguments of the call; one that a framework makes has them already, without defaults."""
        if self.records_content and not self._repeats_frameworks_call:
            self.arguments(name_arguments())

    def yielded(self, item: Any) -> None:
        """Keep an item: it is a part of the result."""
        if self.records_content:
            self._yielded.append(item)

    def returned(self, value: Any) -> None:
        """Record the returned value, or else the yielded items, as the result, unless one was recorded."""
        if not self._has_result:
            self.result(self._yielded if value is None and self._yielded else value)


class CurrentLLMCall(Operation):
    """One call of a model."""

    span_kind = SpanKind.CLIENT

    def __init__(self, model: str, provider: str | None = None) -> None:
        attributes = {
            semconv.OPERATION_NAME: semconv.CHAT,
            semconv.REQUEST_MODEL: model,
            semconv.PROVIDER_NAME: provider,
        }
        super().__init__(f"{semconv.CHAT} {plain_text(model)}", attributes)
        self._response_model: str | None = None

    @never_raising
    def input(self, messages: object, *, system: object = None) -> None:
        """Record the input: a text, or messages as the conventions, OpenAI, Anthropic or Gemini have them."""
        if self.records_content:
            self._set_json(semconv.INPUT_MESSAGES, _messages.messages(messages, "user"))
            if system is not None:
                self._set_json(semconv.SYSTEM_INSTRUCTIONS, _messages.parts(_messages.plain(system)))

    @never_raising
    def output(
        self,
        messages: object = None,
        *,
        tool_calls: Sequence[object] | None = None,
        finish_reason: str | None = None,
    ) -> None:
        """Record the answer: a text or messages, None if there is none, and the `tool_calls` it requests.

        A tool call is `{"id", "name", "arguments"}` or the call of an OpenAI, Anthropic or Gemini client.
        """
        if finish_reason is not None:
            self._set(semconv.FINISH_REASONS, [plain_text(finish_reason)])
        if not self.records_content:
            return
        answer = _messages.messages(messages, "assistant")
        if tool_calls:
            answer = answer or [{"role": "assistant"}]
            calls = [_messages.tool_call(call) for call in tool_calls]
            answer[-1] = {**answer[-1], "parts": [*answer[-1].get("parts", ()), *calls]}
        if finish_reason is not None:
            answer = [{**message, "finish_reason": finish_reason} for message in answer]
        self._set_json(semconv.OUTPUT_MESSAGES, answer)

    @never_raising
    def record(self, response: object) -> None:
        """Record what a client returned: answer, tool calls, tokens, model, id and why the answer ended.

        `response` is OpenAI's chat completion or Response, Anthropic's message or Gemini's
        `GenerateContentResponse`, an object or a dictionary, or the list of the chunks of a stream.
        """
        if not self.span.is_recording():
            return
        read = read_response(response)
        self.usage(**dataclasses.asdict(read.tokens))
        self.response_model = read.model
        self._set(semconv.RESPONSE_ID, read.response_id)
        self._set(semconv.FINISH_REASONS, read.finish_reasons or None)
        if self.records_content:
            self._set_json(semconv.OUTPUT_MESSAGES, read.messages)

    @never_raising
    def usage(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cached_input_tokens: int | None = None,
        cache_write_tokens: int | None = None,
        reasoning_tokens: int | None = None,
    ) -> None:
        """Record tokens: `input_tokens` includes those read from and written to a cache.

        `output_tokens` includes reasoning.
        """
        counts = {
            semconv.INPUT_TOKENS: input_tokens,
            semconv.OUTPUT_TOKENS: output_tokens,
            semconv.CACHE_READ_TOKENS: cached_input_tokens,
            semconv.CACHE_WRITE_TOKENS: cache_write_tokens,
            semconv.REASONING_TOKENS: reasoning_tokens,
        }
        wrong = {key: value for key, value in counts.items() if not isinstance(value, int | float | None)}
        for key, value in counts.items():
            if key not in wrong:
                self._set(key, value)
        if wrong:
            raise TypeError(
                ", ".join(f"{key} is of type {type(value).__name__}" for key, value in wrong.items())
            )

    @property
    def response_model(self) -> str | None:
        """The model that answered, if the provider reports it: assign it."""
        return self._response_model

    @response_model.setter
    def response_model(self, model: str | None) -> None:
        self._response_model = model
        self._set(semconv.RESPONSE_MODEL, None if model is None else plain_text(model))


def session(
    conversation_id: str | None = None,
    *,
    question_id: str | None = None,
    user: str | None = None,
    tags: str | Sequence[str] = (),
    version: str | None = None,
    user_id: str | None = None,
) -> CurrentSession:
    """Return a context manager: every span that starts inside belongs to this conversation.

    Without an id the conversation gets a random one; read it from `conversation_id`. With an id that was used
    before, the conversation goes on. `question_id` names the golden question that it answers, `version` is
    the agent's. `user_id` is another name of `user`.
    """
    ids = [None if each is None else plain_text(each) for each in (conversation_id, question_id, version)]
    users = [plain_text(each) for each in (user, user_id) if each is not None]
    listed = tags if isinstance(tags, list | tuple | set | frozenset) else [tags]
    return CurrentSession(
        ids[0],
        question_id=ids[1],
        user_id=users[0] if users else None,
        tags=tuple(plain_text(tag) for tag in listed),
        version=ids[2],
    )


@overload
def turn(user_input: str | None = None) -> CurrentTurn: ...
@overload
def turn(user_input: F) -> F: ...
def turn(user_input: Any = None) -> Any:
    """Open a turn; as a decorator, record its first text argument and the text that it returns."""
    return CurrentTurn()(user_input) if callable(user_input) else CurrentTurn(user_input)


@overload
def agent(name: str, *, agent_id: str | None = None) -> Agent: ...
@overload
def agent(name: F) -> F: ...
def agent(name: Any, *, agent_id: str | None = None) -> Any:
    """Open a run of an agent: `invoke_agent {name}`; a bare decorator uses the function's name."""
    return Agent(_name(name), agent_id)(name) if callable(name) else Agent(name, agent_id)


@overload
def tool(name: str, *, call_id: str | None = None) -> Tool: ...
@overload
def tool(name: F) -> F: ...
def tool(name: Any, *, call_id: str | None = None) -> Any:
    """Open an execution of a tool: `execute_tool {name}`; a bare decorator uses the function's name.

    The arguments of a decorated function, as they were passed, and its result are recorded as JSON.
    """
    return Tool(_name(name), call_id)(name) if callable(name) else Tool(name, call_id)


def llm_call(model: str, provider: str | None = None) -> CurrentLLMCall:
    """Open a call of a model: `chat {model}`. `provider` is the conventions' name: `gcp.gemini`, `openai`."""
    return CurrentLLMCall(model, provider)


def current_turn() -> CurrentTurn:
    """Return the open turn; outside one, a turn that records nothing."""
    return current(CurrentTurn) or CurrentTurn()


def current_agent() -> Agent:
    """Return the open agent; outside one, an agent that records nothing."""
    return current(Agent) or Agent("")


def current_tool() -> Tool:
    """Return the open tool; outside one, a tool that records nothing."""
    return current(Tool) or Tool("")


def current_llm_call() -> CurrentLLMCall:
    """Return the open call of a model; outside one, a call that records nothing."""
    return current(CurrentLLMCall) or CurrentLLMCall("")


@never_raising
def set_state(variables: Mapping[str, object] | None = None, /, **named: object) -> None:
    """Record state variables as an event of the current span; the last write of a name wins.

    Values are kept as JSON; one without a JSON form is kept as `str(value)`. Names that are not identifiers
    go in a mapping: `set_state({"user:tier": "gold"})`. The current span may be a framework's.
    """
    if content_captured():
        written = {str(key): json_value(value) for key, value in {**(variables or {}), **named}.items()}
        # An event, not an attribute: it has the time of the write.
        trace.get_current_span().add_event(semconv.STATE, {semconv.STATE: dumps(written)})


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
