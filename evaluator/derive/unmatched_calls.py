"""The calls that models requested and that no span has been matched with yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import NamedTuple

import orjson

from spangrade.converters.spans.observation import Exchanging, MessageCall, ToolUse
from spangrade.tracer.canonical_json import canonical

_MOST_CANDIDATES = 100  # calls of one name that a span is compared with


class ModelRequest(NamedTuple):
    """A call that a model requested, and the result that a later request of a model reports.

    `failed` is what that request marks the result as, None if it does not.
    """

    call: MessageCall
    requested_by: Exchanging
    result: str | None
    reported_by: Exchanging | None
    failed: bool | None = None


class UnmatchedCalls:
    """The requested calls of one turn that no span is matched with yet."""

    def __init__(self, requested: Sequence[ModelRequest]) -> None:
        self._requested = requested
        self._matched = [False] * len(requested)
        self._by_id: dict[str | None, deque[int]] = {}
        for number, item in enumerate(requested):
            self._by_id.setdefault(item.call.call_id, deque()).append(number)

    @cached_property
    def _by_content(self) -> Mapping[tuple[str | None, ...], deque[int]]:
        """The calls by name, by arguments and by both, for the spans without the id of a call."""
        numbers: dict[tuple[str | None, ...], deque[int]] = {}
        for number, item in enumerate(self._requested):
            call = item.call
            keys = [("name", call.name), ("arguments", call.arguments)]
            both = [(form, call.name, text) for form, text in _arguments_of_spans(call.arguments)]
            for key in (*keys, *both):
                numbers.setdefault(key, deque()).append(number)
        return numbers

    def pop(self, tool: ToolUse) -> ModelRequest | None:
        """Return the call that a span executes, which no other span is then matched with.

        Without an id it is one of the last model call that asked for such a tool before the span began.
        """
        if tool.call_id:
            number = self._first(self._by_id.get(tool.call_id))
        else:
            forms = ("object",) if (tool.arguments or "").startswith("{") else ("object", "value")
            start_ns = tool.span.start_ns
            same = [
                self._last_asked(self._by_content.get((form, tool.name, tool.arguments)), start_ns)
                for form in forms
            ]
            number = min((one for one in same if one is not None), default=None)
            if number is None and tool.arguments is None:
                number = self._last_asked(self._by_content.get(("name", tool.name)), start_ns)
        if number is None:
            return None
        self._matched[number] = True
        return self._requested[number]

    def pop_similar(self, tool: ToolUse) -> ModelRequest | None:
        """Return the first call that a span executes if no call has its id, or its very arguments.

        Frameworks add arguments (a context) and convert values. Two call ids that differ are two calls unless
        name and arguments are the same: a framework may give a call an id of its own.
        """
        same_name: Iterable[int] = self._by_content.get(("name", tool.name), ())
        last = self._last_asked(self._by_content.get(("name", tool.name)), tool.span.start_ns)
        if last is not None and not tool.call_id:
            same_name = (last, *islice(same_name, _MOST_CANDIDATES))
        same_arguments = self._by_content.get(("arguments", tool.arguments), ()) if tool.arguments else ()
        for number in islice(chain(same_name, same_arguments), _MOST_CANDIDATES):
            call = self._requested[number].call
            same = (tool.name, tool.arguments) == (call.name, call.arguments)
            if self._matched[number] or (tool.call_id and call.call_id and not same):
                continue
            if tool.name is None or _is_same_name(tool.name, call.name):
                self._matched[number] = True
                return self._requested[number]
        return None

    def rest(self) -> list[ModelRequest]:
        """Return the calls that no span is matched with."""
        return [item for number, item in enumerate(self._requested) if not self._matched[number]]

    def _last_asked(self, numbers: deque[int] | None, start_ns: int) -> int | None:
        """Return the first call, of these, of the last model call that began before a time.

        That model call may have ended then, or enclose what runs the tool. Without one, it is the first call.
        """
        while numbers and self._matched[numbers[-1]]:
            numbers.pop()
        found: int | None = None
        asking = None
        for number in islice(reversed(numbers or ()), _MOST_CANDIDATES):
            by = self._requested[number].requested_by.span
            if self._matched[number] or by.start_ns > start_ns:
                continue
            if asking not in (None, by.node):
                break
            found, asking = number, by.node
        return self._first(numbers) if found is None else found

    def _first(self, numbers: deque[int] | None) -> int | None:
        while numbers and self._matched[numbers[0]]:
            numbers.popleft()
        return numbers[0] if numbers else None


def _is_same_name(one: str | None, other: str | None) -> bool:
    """Return whether one name is the other with a prefix: a server's, or a client's (`mcp__shop__cart`)."""
    return bool(one and other) and (str(one).endswith(str(other)) or str(other).endswith(str(one)))


def _arguments_of_spans(requested: str | None) -> Iterator[tuple[str, str | None]]:
    """Yield the arguments that a span of a requested call may have, as (form, text).

    The form is "value" if the text is the value of the only argument. A bare 42 may stand for the text "42".
    """
    yield "object", requested
    value = None if requested is None else orjson.loads(requested)
    if isinstance(value, str):
        yield "object", value
    elif requested is None:
        yield "object", "null"
    elif isinstance(value, dict) and len(value) == 1:
        (argument,) = value.values()
        yield "value", canonical(argument)
        if isinstance(argument, str):
            yield "value", argument
