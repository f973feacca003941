"""Read what an agent returned or yielded, of many types, as one reply."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import chain
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from spangrade.converters.spans.outcomes import is_mark, mark_of
from spangrade.converters.spans.values import parse_json
from spangrade.evaluator.agents.adapters.adapter import Reply
from spangrade.evaluator.agents.in_time import in_thread
from spangrade.evaluator.turn import AgentTurn, ToolCall, TurnEvent
from spangrade.tracer.base.canonical_json import json_value
from spangrade.tracer.base.errors import type_name


async def pieces(function: Callable[..., Any], *arguments: Any, **named: Any) -> list[Any]:
    """Call a function, sync or async, and return what it yields, or else what it returns.

    Raises ValueError if it returns what is not a reply: an event says nothing by itself.

    A function that is not async runs in a thread, with the context of the caller: it may block, and it may
    run an event loop of its own.
    """
    value = await _in_thread(function, *arguments, **named)
    if inspect.isawaitable(value):
        value = await value
    if hasattr(value, "__aiter__"):
        return [piece async for piece in value]
    if inspect.isgenerator(value):
        return list(await _in_thread(list, value))
    if value is not None and not _is_reply(value):
        raise ValueError(f"expected a text, or an object with the key `text`, found {value!r:.80}")
    return [value]


def _is_reply(value: Any) -> bool:
    """Return whether a function may return a value for the user, or to say what it called."""
    is_call = isinstance(value, ToolCall) or isinstance(getattr(value, "tool_name", None), str)
    is_known = is_call or isinstance(value, AgentTurn | Mapping | TurnEvent)
    return is_known or hasattr(value, "text") or _text(value) is not None


async def _in_thread(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a function in a thread; its StopIteration, which no future can hold, becomes a RuntimeError."""

    def call() -> Any:
        try:
            return function(*arguments, **named)
        except StopIteration as error:
            raise RuntimeError("the agent raised StopIteration") from error

    return await in_thread(call)


_CALLS = "tool_calls"
_SPEAKS_OF_CALLS = re.compile(r"call|tool|function|invocation", re.IGNORECASE)
_ON_OFFER = re.compile(r"choice|config|declar|defin|available|allow|schema|max|parallel", re.IGNORECASE)
_CALL_TYPE = re.compile(r"(?:call|tool.?use)$", re.IGNORECASE)
_NAMES = frozenset({"name", "tool", "toolname", "function", "functionname", "action"})
_INPUTS = frozenset(
    {"arguments", "args", "kwargs", "toolinput", "toolargs", "toolarguments", "actioninput", "inputarguments"}
)
_DECLARED = frozenset({"parameters", "inputschema", "description"})
_MAX_DEPTH = 20
_NAMES_OF_CALLS = ("toolcalls", "functioncalls", "tooluses", "tools", "calls", "toolinteractions", "actions")


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")

    text: str | None
    tool_calls: list[ToolCall] | None = None
    state: dict[str, Any] | None = None


def read_answer(answer: Any) -> Reply:
    """Return the reply in an object `{"text", "tool_calls", "state"}`, of which the last two may be missing.

    Raises ValueError for anything else, with the keys that it has.
    """
    if not isinstance(answer, Mapping):
        raise ValueError(f"expected an object with the key `text`, found {answer!r:.80}")
    if "text" not in answer:
        raise ValueError(f"no key `text` in the answer; it has: {', '.join(map(str, answer)) or 'none'}")
    try:
        read = _Answer.model_validate(dict(answer))
    except ValidationError as error:
        found = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, found['loc']))}: {found['msg']}") from None
    disputed = {
        key: beyond
        for key, value in answer.items()
        if key not in ("text", _CALLS, "state")
        and (beyond := beyond_known(calls_in(value, str(key)), read.tool_calls or ()))
    }
    calls = None if disputed else read.tool_calls
    return Reply(
        read.text,
        calls,
        read.state,
        instead=tuple(disputed) or calls_instead(answer),
        disputed=tuple(chain(*disputed.values())),
        stated=calls is not None,
    )


def calls_instead(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of an answer that may be meant for `tool_calls`."""
    return tuple(key for key in answer if key != _CALLS and _is_like(key, _NAMES_OF_CALLS))


def _is_like(key: object, names: Sequence[str]) -> bool:
    return bool(get_close_matches(_plain(key), names, n=1, cutoff=0.8))


class Listed(NamedTuple):
    """A call that an answer lists: its name, empty without one, and its arguments, None if it has none."""

    name: str
    arguments: Any = None


def beyond_known(listed: Iterable[Listed], known: Iterable[Any]) -> tuple[Listed, ...]:
    """Return the calls that are not known by their name and, where both have them, their arguments."""
    known = list(known)

    def is_known(one: Listed) -> bool:
        arguments = [call.arguments for call in known if call.name == one.name]
        return any(None in (other, one.arguments) or other == one.arguments for other in arguments)

    return tuple(one for one in listed if not is_known(one))


def calls_in(value: Any, key: str = "", depth: int = 0) -> Iterator[Listed]:
    """Yield what looks like calls in a part of an answer.

    That is an object with a name and an input, or whose type is that of a call, and what a list has whose key
    speaks of calls or tools. What is on offer is none: a declaration, a choice, a configuration.
    """
    if depth > _MAX_DEPTH or not value or _is_declaration(value):
        return
    of_calls = bool(_SPEAKS_OF_CALLS.search(key)) and not _ON_OFFER.search(key)
    if isinstance(value, Mapping):
        if _is_call(value):
            yield _listed(value)
            return
        for inner, part in value.items():
            if of_calls and part and isinstance(part, Mapping | list) and not _is_declaration(part):
                yield Listed(str(inner))  # a call by its tool's name
            else:
                yield from calls_in(part, str(inner), depth + 1)
    elif isinstance(value, list | tuple):
        for part in value:
            if of_calls and part and not _is_declaration(part) and (listed := _item(part)) is not None:
                yield listed
            else:
                yield from calls_in(part, "", depth + 1)


def _item(part: Any) -> Listed | None:
    """Return an item of a list of calls; None for one of a type alone, which is on offer."""
    if isinstance(part, Mapping):
        return None if "type" in part and not (_name_of(part) or _is_call(part)) else _listed(part)
    return Listed(part if isinstance(part, str) else "")


def _listed(value: Mapping[Any, Any]) -> Listed:
    inner = next((part for part in value.values() if isinstance(part, Mapping) and _is_call(part)), value)
    given = (part for key, part in inner.items() if _plain(key) in _INPUTS | {"input"})
    arguments = parse_json(next(given, None))
    return Listed(_name_of(value), arguments if isinstance(arguments, Mapping) else None)


def _is_call(value: Mapping[Any, Any]) -> bool:
    keys = set(map(_plain, value))
    has_input = not keys.isdisjoint(_INPUTS) or any(
        _plain(key) == "input" and isinstance(part, Mapping) for key, part in value.items()
    )
    return (has_input and bool(_name_of(value))) or bool(_CALL_TYPE.search(str(value.get("type", ""))))


def _is_declaration(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return isinstance(value, list) and bool(value) and all(map(_is_declaration, value))
    keys = set(map(_plain, value))
    if not keys.isdisjoint(_DECLARED):
        return keys.isdisjoint({*_INPUTS, "input"}) and not _CALL_TYPE.search(str(value.get("type", "")))
    return isinstance(value.get("function"), Mapping) and _is_declaration(value["function"])


def _name_of(value: Mapping[Any, Any]) -> str:
    """Return the name of a call, empty if it has none."""
    for key, part in value.items():
        if _plain(key) in _NAMES:
            if isinstance(part, str):
                return part
            if isinstance(part, Mapping) and (name := _name_of(part)):
                return name
    return ""


def _plain(key: object) -> str:
    return "".join(filter(str.isalnum, str(key).lower()))


def read_reply(pieces_of_reply: Iterable[Any]) -> Reply:
    """Return the texts, joined, and the tool calls among the pieces of a reply.

    A piece is a string, an `AgentTurn`, a `ToolCall`, an object with a text as `content` or `text`, or one
    with a `tool_name` (and `tool_args`, `result`, `error`, `tool_call_id`): a call, or its result. Any other
    piece but None is an event. A mapping that is the only piece, and has no `type` as events do, is an
    answer: see `read_answer`, whose errors are raised. So is a dataclass or a pydantic model.
    """
    pieces_of_reply = list(pieces_of_reply)
    if len(pieces_of_reply) == 1 and (answer := _whole_answer(pieces_of_reply[0])) is not None:
        return answer
    texts: list[str] = []
    calls: list[ToolCall] = []
    ids: list[str | None] = []
    events: list[tuple[int, TurnEvent]] = []
    knows_calls = False
    for piece in pieces_of_reply:
        if isinstance(piece, AgentTurn):
            texts.append(piece.text if isinstance(piece.text, str) else "".join(piece.text))
            knows_calls = knows_calls or piece.tool_calls is not None
            calls += piece.tool_calls or ()
            ids += [None for _ in piece.tool_calls or ()]
            events += ((len(calls), event) for event in piece.events or ())
        elif isinstance(piece, ToolCall):
            calls.append(piece)
            ids.append(None)
        elif isinstance(getattr(piece, "tool_name", None), str):
            _add_event(piece, calls, ids)
        elif (text := _text(piece)) is not None:
            texts.append(text)
        elif piece is not None:
            events.append((len(calls), _event(piece)))
    if not calls and not knows_calls:
        return Reply("".join(texts) if texts else None, events=tuple(events))
    return Reply("".join(texts), calls, events=tuple(events))  # an agent that called tools may have no text


def _whole_answer(piece: Any) -> Reply | None:
    """Return the answer that a piece is, a mapping or an object with such fields; None if it is neither."""
    if isinstance(piece, Mapping):
        return read_answer(piece) if "type" not in piece else None
    if isinstance(getattr(piece, "text", None), str) and not isinstance(piece, AgentTurn):
        with suppress(ValueError):  # an object of another package, with calls in a form of its own
            return read_answer(json_value(piece))
    return None


def _event(piece: Any) -> TurnEvent:
    """Return an event: of an object, its class and fields; of a mapping, its `type` and the rest."""
    if isinstance(piece, TurnEvent):
        return piece
    fields = json_value(piece)
    if isinstance(piece, Mapping) and isinstance(fields, dict) and isinstance(fields.get("type"), str):
        name = fields.pop("type")
    else:
        name = type_name(piece)
    return TurnEvent(name or "unnamed", fields if isinstance(fields, dict) else None)


def _add_event(event: Any, calls: list[ToolCall], ids: list[str | None]) -> None:
    """Add a call, or add a result to its call: the one with its id, else the first open one of its name."""
    call_id = getattr(event, "tool_call_id", None)
    result = getattr(event, "result", None)
    fields = {"error": getattr(event, "error", None), **getattr(event, "__dict__", {})}
    if mark_of({name: value for name, value in fields.items() if is_mark(name)}) == "failed":
        result = {"error": fields["error"] or result or True}
    call = ToolCall(
        event.tool_name or "unnamed", json_value(getattr(event, "tool_args", None)), json_value(result)
    )
    if hasattr(event, "result"):
        for index, earlier in enumerate(calls):
            same = ids[index] == call_id if call_id and ids[index] else earlier.name == call.name
            if same and earlier.result is None:
                calls[index] = ToolCall(earlier.name, earlier.arguments or call.arguments, call.result)
                return
    calls.append(call)
    ids.append(call_id)


def _text(piece: Any) -> str | None:
    if isinstance(piece, str):
        return piece
    for name in ("content", "text"):
        # A computed `content` is how an event is printed, not the agent's text.
        if name == "content" and isinstance(getattr(type(piece), name, None), property):
            continue
        if isinstance(text := getattr(piece, name, None), str):
            return text
    return None
