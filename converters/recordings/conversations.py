"""Conversations that are recorded as messages, made into spans by the GenAI conventions.

Messages have a role, texts, calls and results, but no spans, and mostly no durations. A turn becomes a span,
with a child span for each message of the model and each call with a result. Missing times are marked: every
duration is unknown, and a conversation without times is tagged `UNDATED`, so that its start is unknown, too.
Ids follow from the conversation's id: the same conversation always becomes the same spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b, sha256
from math import isfinite
from typing import Any, NamedTuple

from spangrade.converters.recordings.plain import json_value
from spangrade.converters.spans.messages import Message, is_injected
from spangrade.converters.spans.observation import MessageCall, ToolResult
from spangrade.converters.spans.outcomes import approval_of
from spangrade.converters.spans.parts import is_answer
from spangrade.converters.spans.values import parse_json
from spangrade.tracer import semconv
from spangrade.tracer.base.canonical_json import canonical, dumps, encodable
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
    `unfinished` is why not all of it is here; None if it is.
    """

    session_id: str
    said: Sequence[Said]
    question_id: str | None = None
    state: Mapping[str, Any] | None = None
    scores: Attributes = NOTHING
    about: Attributes = NOTHING
    declared: Any = None
    stop_words: Sequence[str] = STOP_WORDS
    unfinished: str | None = None


class _Turn(NamedTuple):
    user: Said | None
    rest: Sequence[Said]

    @property
    def said(self) -> Sequence[Said]:
        """All messages of the turn."""
        return self.rest if self.user is None else (self.user, *self.rest)


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
    times: list[list[int]] = []
    for turn in turns:
        times.append([])
        for one in turn.said:
            at_ns = one.time_ns if one.time_ns is not None else at_ns + (0 if is_dated else _STEP_NS)
            times[-1].append(at_ns)
    results = _results(turns, times)
    for number, turn in enumerate(turns, 1):
        root = {
            semconv.TURN: True,
            semconv.CONVERSATION_ID: conversation.session_id,
            semconv.QUESTION_ID: conversation.question_id,
            semconv.TURN_INPUT: None if turn.user is None else turn.user.message.text,
            semconv.TURN_OUTPUT: _reply(turn.rest),
            semconv.UNFINISHED: conversation.unfinished,
            **about,
        }
        if number == len(turns):
            if conversation.state is not None:
                root[semconv.STATE] = dumps(conversation.state)
            root |= conversation.scores
        yield from _Trace(conversation, number).spans(
            root, turn.said, times[number - 1], instructions, results[number - 1]
        )


def _turns(conversation: RecordedConversation) -> Iterator[_Turn]:
    """Yield the turns: a message of the user, and all until the next.

    A last message of the user that is a stop word, and no more, begins none: the user hung up.
    """
    said = [part for one in conversation.said if one.message.role != "system" for part in _divided(one)]
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


def _divided(one: Said) -> Sequence[Said]:
    """Return a message, or in two: the results in it are those of the calls before the user's next text."""
    results = one.message.tool_results
    if not results or not _is_user(one):
        return (one,)
    return (
        one._replace(message=Message("tool", None, (), results)),
        one._replace(message=one.message._replace(tool_results=())),
    )


def _is_user(one: Said) -> bool:
    text = one.message.text
    return one.message.role == "user" and bool(text) and not is_injected(text or "")


def _reply(rest: Sequence[Said]) -> str | None:
    """Return the last text of the model, unless it called tools with it: that is no reply yet."""
    last = next((one.message for one in reversed(rest) if one.message.role == "assistant"), None)
    if last is None or any(
        call.result is None and not call.by_provider and not is_answer(call.name or "")
        for call in last.tool_calls
    ):
        return None
    return last.text


def made_id(kind: str, messages: Any) -> str:
    """Return the id of a conversation that has none: of its kind, and the digest of its messages."""
    return f"{kind}-{sha256(canonical(messages).encode()).hexdigest()[:16]}"


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

    def spans(
        self,
        root: Attributes,
        said: Sequence[Said],
        times: Sequence[int],
        instructions: str | None,
        results: _Results,
    ) -> Iterator[Span]:
        others = results.others
        unseen = root[semconv.UNFINISHED] or (None if all(one.name for one, _ in others) else _NAMELESS)
        turn = self._span("turn", None, times[0], times[-1], {**root, semconv.UNFINISHED: unseen})
        yield turn
        agent: Span | None = None
        for one, at_ns in zip(said, times, strict=True):
            if one.message.role != "assistant":
                continue
            parent = turn
            if one.agent is not None:
                if agent is None or agent.attributes[semconv.AGENT_NAME] != one.agent:
                    agent = self._agent(one.agent, turn, at_ns)
                    yield agent
                parent = agent
            yield self._chat(one, parent, at_ns, instructions)
            for call in one.message.tool_calls:
                start_ns = at_ns
                own = () if call.result is None else ((call.result, at_ns),)
                for result, end_ns in own or results.of.get(id(call), ()):
                    if call.name or result.name:  # a call without a name stays unknown
                        yield self._tool(call, result, end_ns, parent, start_ns)
                    start_ns = max(start_ns, end_ns)
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
                **({} if call.arguments is None else {"arguments": call.arguments}),
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


class _Results(NamedTuple):
    """The results of calls with their times, by the `id` of the call's object, and a turn's others.

    The others are the results of calls that no message requests.
    """

    of: Mapping[int, Sequence[tuple[ToolResult, int]]]
    others: Sequence[tuple[ToolResult, int]]


def _results(turns: Sequence[_Turn], times: Sequence[Sequence[int]]) -> list[_Results]:
    """Return the results for each turn.

    A result is that of one call: by any id of the call, first of those in its turn in order, then of the last
    one before; where either has no id, by name, in the turn. A call has two where the first one says that it
    waits for a person.
    """
    calls = [call for turn in turns for one in turn.said for call in one.message.tool_calls]
    requested = {call_id for call in calls for call_id in (call.call_id, call.other_id) if call_id}
    found: dict[int, list[tuple[ToolResult, int]]] = {}
    by_id: dict[str, list[MessageCall]] = {}
    waiting: dict[str | None, MessageCall] = {}
    by_turn: list[_Results] = []
    for turn, at in zip(turns, times, strict=True):
        left: dict[int, MessageCall] = {}
        others: list[tuple[ToolResult, int]] = []
        for one, at_ns in zip(turn.said, at, strict=True):
            for call in one.message.tool_calls:
                if call.result is None:
                    left[id(call)] = call
                    for call_id in filter(None, (call.call_id, call.other_id)):
                        by_id.setdefault(call_id, []).append(call)
            for result in one.message.tool_results:
                call_of = _call_of(result, left, by_id, found) or waiting.pop(result.call_id, None)
                if call_of is None:
                    others += [] if result.call_id in requested else [(result, at_ns)]
                    continue
                left.pop(id(call_of), None)
                found.setdefault(id(call_of), []).append((result, at_ns))
                if result.call_id and result.result and approval_of(parse_json(result.result)) == "asked":
                    waiting[result.call_id] = call_of
        by_turn.append(_Results(found, others))
    return by_turn


def _call_of(
    result: ToolResult,
    left: Mapping[int, MessageCall],
    by_id: Mapping[str, list[MessageCall]],
    found: Mapping[int, object],
) -> MessageCall | None:
    """Return the call of a result, given the calls of the turn that are left, and all by their ids."""
    for call in left.values():
        if call.has_id(result.call_id) or (
            None in (call.call_id, result.call_id) and result.name in (None, call.name)
        ):
            return call
    earlier = by_id.get(result.call_id or "", [])
    return next((call for call in reversed(earlier) if id(call) not in found), None)


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
