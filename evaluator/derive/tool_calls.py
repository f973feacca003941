"""Tool interactions: a call and its result, told by a span, by the model's messages, or by both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from spangrade.converters.spans.observation import Observation, ToolCall

_FAILED = frozenset({"error", "failed", "failure"})


class Told(NamedTuple):
    """A call that a model asked for, and what a later request says came of it."""

    call: ToolCall
    asked_by: Observation
    result: str | None
    told_by: Observation | None


def told(calls: Sequence[Observation]) -> list[Told]:
    """Return the tool calls in the messages of one turn's model calls, each with its result.

    History repeats every earlier call and result: only what a model newly asked, and was newly told, is
    looked at. Results are joined by call id, else by name, in order.
    """
    asked: list[Told] = []
    for seen in calls:
        for result in seen.tool_results:
            open_ = [i for i, t in enumerate(asked) if t.told_by is None]
            by_id = [i for i in open_ if result.call_id and asked[i].call.call_id == result.call_id]
            by_name = [i for i in open_ if result.name and asked[i].call.name == result.name]
            for i in (by_id or ([] if result.call_id and _has_ids(asked) else by_name))[:1]:
                asked[i] = asked[i]._replace(result=result.result, told_by=seen)
        asked += [Told(call, seen, None, None) for call in seen.tool_calls]
    return asked


def _has_ids(asked: Iterable[Told]) -> bool:
    return any(t.call.call_id for t in asked)


def completed(spans: Sequence[Observation], messages: Sequence[Told]) -> Iterator[Observation]:
    """Yield one turn's tool spans with what only the messages tell: call id, arguments, result.

    A bare value is no more than one argument's, of a name that only the messages tell.
    """
    left = list(messages)
    for seen in spans:
        match = _match(seen, left)
        whole = seen.arguments is not None and seen.arguments.startswith("{")
        if match is None:
            yield seen if whole else seen._replace(arguments=None)
            continue
        left.remove(match)
        yield seen._replace(
            call_id=seen.call_id or match.call.call_id,
            arguments=seen.arguments if whole else match.call.arguments,
            result=seen.result or match.result,
        )


def _match(seen: Observation, messages: Sequence[Told]) -> Told | None:
    if seen.call_id:
        return next((t for t in messages if t.call.call_id == seen.call_id), None)
    named = [t for t in messages if t.call.name == seen.name]
    same = [t for t in named if _same(seen.arguments, t.call.arguments)]
    if seen.arguments is not None and not same:
        return None
    return next(iter(same or named), None)


def _same(recorded: str | None, asked: str | None) -> bool:
    """Tell whether a span's arguments are those of a message; some record a lone argument's bare value."""
    if recorded == asked:
        return True
    told, wanted = json_or_none(recorded), json_or_none(asked)
    if isinstance(wanted, dict) and not isinstance(told, dict) and len(wanted) == 1:
        wanted = next(iter(wanted.values()))
    # A bare 42 may stand for the text "42".
    return recorded is not None and wanted in (told, recorded)


def from_messages(messages: Iterable[Told]) -> Iterator[Observation]:
    """Yield an observation for each call that the messages alone tell of, where it has a result."""
    for item in messages:
        if item.told_by is None or item.call.name is None:
            continue
        yield Observation(
            "tool",
            item.asked_by.trace_id,
            "",
            item.asked_by.span_id,
            item.asked_by.end_ns,
            item.told_by.start_ns,
            name=item.call.name,
            agent=item.asked_by.agent,
            arguments=item.call.arguments,
            result=item.result,
            call_id=item.call.call_id,
        )


def is_handoff(name: str) -> bool:
    """Tell whether a tool's name says that it only transfers control to another agent."""
    return name == "handoff" or name.startswith(("transfer_to_", "handoff_to_", "transfer_back_to_"))


def handoff_target(name: str, arguments: str | None) -> str | None:
    """Return the agent that a hand-off names: in its arguments, else in the tool's own name."""
    value = json_or_none(arguments)
    if isinstance(value, Mapping):
        for key in ("agent_name", "to_agent", "agent", "to"):
            if isinstance(value.get(key), str):
                return str(value[key])
    if name in {"transfer_to_agent", "handoff_to_agent", "handoff"}:
        return None
    return (
        name.removeprefix("transfer_back_to_").removeprefix("transfer_to_").removeprefix("handoff_to_")
        or None
    )


def is_named(name: str, arguments: str | None, agent: str) -> bool:
    """Tell whether a hand-off's call names an agent; a tool's name may spell it with underscores."""
    target = handoff_target(name, arguments)
    return target is not None and spelt(target) == spelt(agent)


@lru_cache(maxsize=4096)  # the same few names in every session
def spelt(name: str) -> str:
    """Return an agent's name as the names of tools spell it."""
    return "".join(c if c.isalnum() else "_" for c in name.lower())


def verdict(seen: Observation) -> tuple[bool | None, str | None]:
    """Return whether a tool call went well, and the error if not.

    Frameworks disagree where a failure is told, so all are looked at: the span, then the result's own
    structure (`{"status": "error"}`, a truthy `"error"`, `"isError"`). A text that only the messages tell
    of may be a failure's as well as an answer's.
    """
    result = json_or_none(seen.result)
    says = None
    flagged = seen.failed
    if isinstance(result, Mapping):
        flagged = (
            flagged
            or (isinstance(result.get("status"), str) and result["status"].lower() in _FAILED)
            or bool(result.get("error"))
            or result.get("isError") is True
            or result.get("is_error") is True
        )
        says = next(
            (str(result[key]) for key in ("error_message", "error", "message", "detail") if result.get(key)),
            None,
        )
    if flagged:
        return False, seen.error or says or (result if isinstance(result, str) else None)
    if seen.result is None or (isinstance(result, str) and not seen.span_id):
        return None, None
    return True, None


def json_or_none(text: str | None) -> Any:
    """Return the value of canonical JSON text; None for none."""
    return None if text is None else orjson.loads(text)
