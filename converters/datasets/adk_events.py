"""A session of ADK read from its events, and written as turns and as spans.

An event has one time: for a model's response it is the start of the call, for a tool's response its end. The
events do not record how long a call or a turn took, so the spans mark their durations as unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spangrade.converters.recordings.conversations import MadeTrace
from spangrade.converters.spans.parts import answer_in, is_answer, read_part
from spangrade.converters.spans.provider_values import gemini_usage
from spangrade.converters.spans.values import either
from spangrade.tracer import semconv
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.span import Attributes, Problem, Span

SCOPE = "gcp.vertex.agent"
_LEAKED = frozenset({"__llm_request_key__"})  # a key that `adk eval` leaves in the session's state


NO_SCORES: Attributes = {}


class Call(NamedTuple):
    """A tool call that a model requested in one event. `response` is from another event; None without one."""

    name: str
    call_id: str | None
    arguments: dict[str, Any]
    response: Any = None
    responded_ns: int | None = None


class Event(NamedTuple):
    """One event of an agent. `inference` is true if the event is the result of a model call.

    `others` are its parts that are no text, call or response: what the provider ran, and unknown ones.
    """

    author: str
    time_ns: int
    text: str | None
    calls: tuple[Call, ...]
    inference: bool
    model: str | None
    usage: Mapping[str, Any]
    error: str | None
    others: tuple[dict[str, Any], ...] = ()


class Invocation(NamedTuple):
    """One user message and the events that followed."""

    invocation_id: str
    time_ns: int
    user_input: str | None
    events: tuple[Event, ...]

    @property
    def response(self) -> str | None:
        """The last text of an agent."""
        return next((event.text for event in reversed(self.events) if event.text), None)

    @property
    def calls(self) -> list[Call]:
        """The tool calls, in order."""
        return [call for event in self.events for call in event.calls if not is_answer(call.name)]


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; nothing for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def parts(content: Any) -> list[dict[str, Any]]:
    """Return the parts of a content."""
    return objects(content.get("parts")) if isinstance(content, dict) else []


def content_text(content: Any) -> str | None:
    """Return the text of a content without thoughts; None if it has none."""
    texts = [
        part["text"]
        for part in parts(content)
        if isinstance(part.get("text"), str) and not part.get("thought")
    ]
    return "".join(texts) if texts else None


def state_of(session: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a session's state without the keys that ADK leaks into it; None if the record has none."""
    state = session.get("state")
    return {k: v for k, v in state.items() if k not in _LEAKED} if isinstance(state, dict) else None


def invocations(session: Mapping[str, Any], where: str) -> Iterator[Invocation | Problem]:
    """Yield the turns of a session record, and a Problem for each event that cannot be used."""
    by_invocation: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    recorded = session.get("events") or []
    if not isinstance(recorded, list):
        yield Problem(f"{where}.events", "not a list")
        return
    for position, event in enumerate(recorded):
        at = f"{where}.events[{position}]"
        invocation_id, seconds = either(event, "invocation_id"), either(event, "timestamp")
        if not isinstance(event, dict) or not isinstance(invocation_id, str) or not invocation_id:
            yield Problem(f"{at}.invocation_id", "missing")
        elif isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 2**33:
            yield Problem(f"{at}.timestamp", "not a number of seconds since 1970")
        elif not event.get("partial"):
            yield from (Problem(at, message) for message in _broken_calls(event))
            # A float holds today's seconds to the microsecond.
            by_invocation.setdefault(invocation_id, []).append((round(seconds * 1e6) * 1000, event))
    for invocation_id, events in by_invocation.items():
        yield _invocation(invocation_id, events)


def _broken_calls(event: Mapping[str, Any]) -> Iterator[str]:
    for part in parts(event.get("content")):
        call = either(part, "function_call")
        if call is None:
            continue
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            yield "a function call without a name"
        elif not isinstance(call.get("args"), dict | None):
            yield f"the args of {call['name']} are not an object"


def _invocation(invocation_id: str, events: Sequence[tuple[int, dict[str, Any]]]) -> Invocation:
    responses = [
        (time_ns, response)
        for time_ns, event in events
        for part in parts(event.get("content"))
        if isinstance(response := either(part, "function_response"), dict)
    ]
    user_texts = [content_text(event.get("content")) for _, event in events if event.get("author") == "user"]
    return Invocation(
        invocation_id,
        events[0][0],
        next((text for text in user_texts if text), None),
        tuple(
            _event(time_ns, event, responses) for time_ns, event in events if event.get("author") != "user"
        ),
    )


def _event(time_ns: int, event: Mapping[str, Any], responses: list[tuple[int, dict[str, Any]]]) -> Event:
    content = event.get("content")
    requested = [either(part, "function_call") for part in parts(content)]
    calls = tuple(
        _with_response(call, responses)
        for call in requested
        if isinstance(call, dict) and isinstance(call.get("name"), str)
    )
    usage, model = either(event, "usage_metadata"), either(event, "model_version")
    error = either(event, "error_message") or either(event, "error_code")
    others = tuple(part for part in parts(content) if _is_other(part))
    is_inference = usage or model or calls or others or error or either(event, "finish_reason")
    return Event(
        str(event.get("author") or "unknown"),
        time_ns,
        answer_in((call.name, call.arguments) for call in calls) or content_text(content),
        calls,
        bool(is_inference),
        model if isinstance(model, str) else None,
        usage if isinstance(usage, dict) else {},
        None if error is None else str(error),
        others,
    )


def _is_other(part: dict[str, Any]) -> bool:
    if either(part, "function_call") is not None or either(part, "function_response") is not None:
        return False
    return not isinstance(read_part(part), str | None)


def _with_response(requested: Mapping[str, Any], responses: list[tuple[int, dict[str, Any]]]) -> Call:
    """Return a call with its response, which is removed from the list: by the call's id, else by its name."""
    call_id, arguments = requested.get("id"), requested.get("args")
    call = Call(
        requested["name"],
        call_id if isinstance(call_id, str) else None,
        arguments if isinstance(arguments, dict) else {},
    )
    key, value = ("id", call.call_id) if call.call_id else ("name", call.name)
    for index, (time_ns, response) in enumerate(responses):
        if response.get(key) == value:
            del responses[index]
            return call._replace(response=response.get("response"), responded_ns=time_ns)
    return call


def spans_of(
    session_id: str,
    turns: Sequence[Invocation],
    state: Mapping[str, Any] | None,
    question_id: str | None = None,
    durations: Mapping[str, float] | None = None,
    app_name: str | None = None,
    scores: Attributes = NO_SCORES,
    scope: str = SCOPE,
) -> Iterator[Span]:
    """Yield a session's spans by the GenAI conventions: one trace per turn, with the events' own times.

    `durations` are the known durations of turns in seconds, by invocation id. The final `state` and the
    `scores` of the session (attributes) are on the last turn. Span ids follow from the session's id: the same
    session always makes the same spans.
    """
    for number, turn in enumerate(turns, 1):
        attributes = {
            semconv.TURN: True,
            semconv.CONVERSATION_ID: session_id,
            semconv.QUESTION_ID: question_id,
            semconv.APP_NAME: app_name,
            semconv.TURN_INPUT: turn.user_input,
            semconv.TURN_OUTPUT: turn.response,
            semconv.STATE: dumps(state) if state is not None and number == len(turns) else None,
            **(scores if number == len(turns) else {}),
        }
        duration = (durations or {}).get(turn.invocation_id)
        yield from _Trace([session_id, turn.invocation_id], scope).spans(turn, attributes, duration)


class _Trace(MadeTrace):
    """The spans of one turn."""

    def spans(self, turn: Invocation, attributes: Attributes, duration: float | None) -> Iterator[Span]:
        times = [turn.time_ns, *(event.time_ns for event in turn.events)]
        end_ns = max(times) if duration is None else turn.time_ns + round(duration * 1e9)
        unknown = {} if duration is not None else {semconv.DURATION_UNKNOWN: True}
        root = self.span("turn", None, turn.time_ns, end_ns, {**attributes, **unknown})
        yield root
        agent, before_ns = None, turn.time_ns
        for event in turn.events:
            if agent is None or agent.attributes[semconv.AGENT_NAME] != event.author:
                named = {semconv.OPERATION_NAME: semconv.INVOKE_AGENT, semconv.AGENT_NAME: event.author}
                agent = self._untimed(f"invoke_agent {event.author}", root, before_ns, named)
                yield agent
            if event.inference:
                yield self._chat(event, agent)
            for call in event.calls:
                if call.responded_ns is not None:  # else it is requested, and perhaps not executed
                    yield self._tool(call, call.responded_ns, agent)
            before_ns = event.time_ns

    def _chat(self, event: Event, agent: Span) -> Span:
        message: list[dict[str, Any]] = [
            {"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": call.arguments}
            for call in event.calls
        ]
        if event.text is not None:
            message.insert(0, {"type": "text", "content": event.text})
        message += event.others
        attributes = {
            semconv.OPERATION_NAME: semconv.CHAT,
            semconv.AGENT_NAME: event.author,
            semconv.RESPONSE_MODEL: event.model,
            **_tokens(event.usage),
            semconv.OUTPUT_MESSAGES: dumps([{"role": "assistant", "parts": message}]),
            semconv.ERROR_TYPE: event.error,
        }
        return self._untimed(f"chat {event.model or ''}".rstrip(), agent, event.time_ns, attributes)

    def _tool(self, call: Call, at_ns: int, agent: Span) -> Span:
        attributes = {
            semconv.OPERATION_NAME: semconv.EXECUTE_TOOL,
            semconv.TOOL_NAME: call.name,
            semconv.TOOL_CALL_ID: call.call_id,
            semconv.TOOL_CALL_ARGUMENTS: dumps(call.arguments),
            semconv.TOOL_CALL_RESULT: dumps(call.response),
        }
        return self._untimed(f"execute_tool {call.name}", agent, at_ns, attributes)

    def _untimed(self, name: str, parent: Span, at_ns: int, attributes: Attributes) -> Span:
        return self.span(name, parent, at_ns, at_ns, {**attributes, semconv.DURATION_UNKNOWN: True})


def _tokens(usage: Mapping[str, Any]) -> Attributes:
    tokens = gemini_usage(usage)
    return {
        semconv.INPUT_TOKENS: tokens.input_tokens,
        semconv.OUTPUT_TOKENS: tokens.output_tokens,
        semconv.CACHE_READ_TOKENS: tokens.cached_input_tokens,
        semconv.REASONING_TOKENS: tokens.reasoning_tokens,
    }
