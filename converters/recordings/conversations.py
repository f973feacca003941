"""Conversations that are recorded as messages, made into spans by the GenAI conventions.

Messages have a role, texts, calls and results, but no spans, and mostly no durations. A turn becomes a span,
with a child span for each message of the model and each call with a result. Missing times are marked: every
duration is unknown, and a conversation without times is tagged `UNDATED`, so that its start is unknown, too.
Ids follow from the conversation's id: the same conversation always becomes the same spans.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from math import isfinite
from typing import Any, NamedTuple

from spangrade.converters.recordings.plain import json_value
from spangrade.converters.spans.messages import Message, is_injected
from spangrade.converters.spans.observation import MessageCall, ToolResult
from spangrade.tracer import semconv
from spangrade.tracer.base.canonical_json import dumps, encodable
from spangrade.tracer.otlp.common import MalformedError
from spangrade.tracer.span import Attributes, Span

_UNDATED_NS, _STEP_NS = 946_684_800_000_000_000, 1_000_000_000  # 2000-01-01: the order of messages alone
STOP_WORDS = ("###STOP###",)  # with which a simulated user hangs up: τ-bench
_SCORE_KEYS = {
    "score": ("value", "score"),
    "label": ("label",),
    "explanation": ("explanation", "comment", "reason", "note"),
    "identifier": ("by", "author", "source", "annotator"),
}
_NAMELESS = "a message has the result of a call that no other requests or names"
NOTHING: Attributes = {}


class Said(NamedTuple):
    """One message. `time_ns` is None where it is not recorded; `attributes` are of its model call."""

    message: Message
    time_ns: int | None = None
    agent: str | None = None
    attributes: Attributes = NOTHING


class RecordedConversation(NamedTuple):
    """Messages in order, with the fields of the whole conversation.

    `scores` are attributes of evaluations (`evaluations`), `about` attributes of every turn, such as tags.
    """

    session_id: str
    said: Sequence[Said]
    question_id: str | None = None
    state: Mapping[str, Any] | None = None
    scores: Attributes = NOTHING
    about: Attributes = NOTHING
    declared: Any = None
    stop_words: Sequence[str] = STOP_WORDS


class _Turn(NamedTuple):
    user: Said | None
    rest: Sequence[Said]


def spans_of(conversation: RecordedConversation) -> Iterator[Span]:
    """Yield the spans of a conversation. Raises MalformedError if nothing is said in it."""
    turns = list(_turns(conversation))
    if not turns:
        raise MalformedError("a conversation without a message of a user or of a model")
    system = [one.message.text for one in conversation.said if one.message.role == "system"]
    instructions = next((text for text in system if text), None)
    is_dated = any(one.time_ns is not None for one in conversation.said)
    about = dict(conversation.about)
    if not is_dated:
        about[semconv.TAGS] = [*about.get(semconv.TAGS, ()), semconv.UNDATED]
    at_ns = _UNDATED_NS
    for number, turn in enumerate(turns, 1):
        said = [*([] if turn.user is None else [turn.user]), *turn.rest]
        times = []
        for one in said:
            at_ns = one.time_ns if one.time_ns is not None else at_ns + (0 if is_dated else _STEP_NS)
            times.append(at_ns)
        root = {
            semconv.TURN: True,
            semconv.CONVERSATION_ID: conversation.session_id,
            semconv.QUESTION_ID: conversation.question_id,
            semconv.TURN_INPUT: None if turn.user is None else turn.user.message.text,
            semconv.TURN_OUTPUT: _reply(turn.rest),
            **about,
        }
        if number == len(turns):
            if conversation.state is not None:
                root[semconv.STATE] = dumps(conversation.state)
            root |= conversation.scores
        yield from _Trace(conversation, number).spans(root, said, times, instructions)


def _turns(conversation: RecordedConversation) -> Iterator[_Turn]:
    """Yield the turns: a message of the user, and all until the next.

    A last message of the user that is a stop word, and no more, begins none: the user hung up.
    """
    said = [one for one in conversation.said if one.message.role != "system"]
    if said and _is_user(said[-1]) and (said[-1].message.text or "").strip() in conversation.stop_words:
        said.pop()
    starts = [place for place, one in enumerate(said) if _is_user(one)]
    before = said[: starts[0]] if starts else said
    if any(one.message.role == "assistant" for one in before):
        starts.insert(0, 0)
    if not starts:
        return
    for start, end in zip(starts, [*starts[1:], len(said)], strict=True):
        first = said[start]
        yield _Turn(first, said[start + 1 : end]) if _is_user(first) else _Turn(None, said[start:end])


def _is_user(one: Said) -> bool:
    text = one.message.text
    return one.message.role == "user" and bool(text) and not is_injected(text or "")


def _reply(rest: Sequence[Said]) -> str | None:
    """Return the last text of the model, unless it called tools with it: that is no reply yet."""
    last = next((one.message for one in reversed(rest) if one.message.role == "assistant"), None)
    if last is None or any(call.result is None and not call.by_provider for call in last.tool_calls):
        return None
    return last.text


class MadeTrace:
    """A trace whose spans are made, not recorded. Its id follows from the `seed`.

    The spans' ids count up, so that spans with the same start stay in order.
    """

    def __init__(self, seed: Sequence[str | int], scope: str) -> None:
        self._trace_id = blake2b(dumps(seed).encode(), digest_size=16).hexdigest()
        self._scope = scope
        self._position = 0

    def span(
        self, name: str, parent: Span | None, start_ns: int, end_ns: int, attributes: Attributes
    ) -> Span:
        """Return the next span, without attributes that are None."""
        self._position += 1
        return Span(
            self._trace_id,
            f"{self._trace_id[:8]}{self._position:08x}",
            None if parent is None else parent.span_id,
            name,
            "INTERNAL",
            start_ns,
            end_ns,
            attributes={key: value for key, value in attributes.items() if value is not None},
            scope_name=self._scope,
        )


class _Trace(MadeTrace):
    """The spans of one turn, whose durations are unknown."""

    def __init__(self, conversation: RecordedConversation, number: int) -> None:
        super().__init__(
            [semconv.SCOPE_OF_MESSAGES, conversation.session_id, number], semconv.SCOPE_OF_MESSAGES
        )
        self._declared = conversation.declared
        self._requested = {call.call_id for one in conversation.said for call in one.message.tool_calls}

    def spans(
        self, root: Attributes, said: Sequence[Said], times: Sequence[int], instructions: str | None
    ) -> Iterator[Span]:
        results = _Results(said, times)
        answered = [
            [
                (call, results.of(call) if call.result is None else (call.result, at_ns))
                for call in one.message.tool_calls
            ]
            for one, at_ns in zip(said, times, strict=True)
        ]
        others = results.of_others(self._requested)
        unseen = None if all(result.name for result, _ in others) else _NAMELESS
        turn = self._span("turn", None, times[0], times[-1], {**root, semconv.UNFINISHED: unseen})
        yield turn
        agent: Span | None = None
        for one, at_ns, calls in zip(said, times, answered, strict=True):
            if one.message.role != "assistant":
                continue
            parent = turn
            if one.agent is not None:
                if agent is None or agent.attributes[semconv.AGENT_NAME] != one.agent:
                    agent = self._agent(one.agent, turn, at_ns)
                    yield agent
                parent = agent
            yield self._chat(one, parent, at_ns, instructions)
            for call, found in calls:
                if found is not None and (call.name or found[0].name):  # a call without a name stays unknown
                    yield self._tool(call, *found, parent, at_ns)
        for result, at_ns in others:
            if result.name:
                yield self._tool(MessageCall(result.name, result.call_id, None), result, at_ns, turn, at_ns)

    def _agent(self, name: str, turn: Span, at_ns: int) -> Span:
        named = {semconv.OPERATION_NAME: semconv.INVOKE_AGENT, semconv.AGENT_NAME: name}
        return self._span(f"invoke_agent {name}", turn, at_ns, at_ns, named)

    def _chat(self, one: Said, parent: Span, at_ns: int, instructions: str | None) -> Span:
        calls = [
            {
                "type": "server_tool_call" if call.by_provider else "tool_call",
                "id": call.call_id,
                "name": call.name,
                "arguments": call.arguments,
            }
            for call in one.message.tool_calls
        ]
        others = [{"type": type_, "unread": True} for type_ in one.message.unread]
        if one.message.is_wordless:
            others.append({"type": "blob"})
        code = [{"executable_code": {"language": "unknown"}}] * one.message.code_runs
        text = [] if one.message.text is None else [{"type": "text", "content": one.message.text}]
        attributes = {
            semconv.OPERATION_NAME: semconv.CHAT,
            semconv.OUTPUT_MESSAGES: dumps([{"role": "assistant", "parts": [*text, *calls, *others, *code]}]),
            semconv.SYSTEM_INSTRUCTIONS: instructions and dumps([{"type": "text", "content": instructions}]),
            semconv.TOOL_DEFINITIONS: None if self._declared is None else dumps(self._declared),
            **one.attributes,
        }
        return self._span("chat", parent, at_ns, at_ns, attributes)

    def _tool(self, call: MessageCall, result: ToolResult, end_ns: int, parent: Span, at_ns: int) -> Span:
        name = call.name or result.name
        attributes = {
            semconv.OPERATION_NAME: semconv.EXECUTE_TOOL,
            semconv.TOOL_NAME: name,
            semconv.TOOL_CALL_ID: call.call_id,
            semconv.TOOL_CALL_ARGUMENTS: call.arguments,
            semconv.TOOL_CALL_RESULT: result.result,
            semconv.TOOL_OUTCOME: _outcome(result),
        }
        made = self._span(f"execute_tool {name}", parent, at_ns, max(at_ns, end_ns), attributes)
        return made._replace(status="ERROR") if result.failed else made

    def _span(
        self, name: str, parent: Span | None, start_ns: int, end_ns: int, attributes: Attributes
    ) -> Span:
        unknown = json_value({**attributes, semconv.DURATION_UNKNOWN: True})
        return self.span(encodable(name), parent, start_ns, end_ns, unknown)


def _outcome(result: ToolResult) -> str | None:
    """Return what a span must say of a result that its value and the span's status do not."""
    if result.doubtful:
        return "unknown"
    return "succeeded" if result.failed is False and result.result is None else None


class _Results:
    """The results of calls in a turn, each for one call: by its id, else the next of its name or of none."""

    def __init__(self, said: Sequence[Said], times: Sequence[int]) -> None:
        self._left = [
            (result, at_ns)
            for one, at_ns in zip(said, times, strict=True)
            for result in one.message.tool_results
        ]

    def of(self, call: MessageCall) -> tuple[ToolResult, int] | None:
        """Return the result of a call and its time, which no other call gets; None without one."""
        for place, (result, _) in enumerate(self._left):
            by_id = call.call_id is not None and result.call_id is not None
            if result.call_id == call.call_id if by_id else result.name in (None, call.name):
                return self._left.pop(place)
        return None

    def of_others(self, requested: Collection[str | None]) -> list[tuple[ToolResult, int]]:
        """Return the results that are left, and their times, of calls without any of the ids `requested`."""
        return [one for one in self._left if one[0].call_id is None or one[0].call_id not in requested]


def tags_of(metadata: Any) -> Attributes:
    """Return the scalars of an object of metadata as tags `key=value`."""
    pairs = metadata.items() if isinstance(metadata, dict) else ()
    tags = [
        f"{key}={value if isinstance(value, str) else dumps(value)}"
        for key, value in pairs
        if isinstance(value, str | int | float)
    ]
    return {semconv.TAGS: tags} if tags else {}


def evaluations(*sources: Any) -> Attributes:
    """Return scores as attributes of a span, for its session.

    Each source is an object of values by name, or a list of objects with a `name`. A value is a number, true
    or false, a text, or an object with a `value`, a `label`, an `explanation` and who gave it (`by`).
    """
    listed: list[tuple[Any, Any]] = []
    for scores in sources:
        if isinstance(scores, dict):
            listed += scores.items()
        elif isinstance(scores, list):
            listed += ((one.get("name"), one) for one in scores if isinstance(one, dict))
    found: Attributes = {}
    number = 0
    for name, value in listed:
        fields = value if isinstance(value, dict) else {"value": value}
        read = {
            key: next((fields[one] for one in keys if fields.get(one) is not None), None)
            for key, keys in _SCORE_KEYS.items()
        }
        score = read["score"]
        if isinstance(score, str):
            read |= {"score": None, "label": read["label"] or score}
        elif not isinstance(score, int | float) or not isfinite(score):
            read["score"] = None
        else:
            read["score"] = float(score)
        if not isinstance(name, str) or (read["score"] is None and not read["label"]):
            continue
        field = f"session.evaluations.{number}.evaluation."
        found |= {f"{field}{key}": one for key, one in {"name": name, **read}.items() if one is not None}
        number += 1
    return found
