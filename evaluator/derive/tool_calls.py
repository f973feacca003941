"""Tool interactions: a call and its result, from a tool's span, the model's messages, or both."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from spangrade.converters.spans.observation import Observation, ToolCall
from spangrade.evaluator.derive.handoffs import is_handoff
from spangrade.evaluator.derive.run_messages import with_messages_of_runs
from spangrade.evaluator.derive.span_tree import Tree
from spangrade.evaluator.derive.timing import seconds
from spangrade.evaluator.derive.turns import Group
from spangrade.evaluator.session import ToolInteraction
from spangrade.tracer.canonical_json import canonical

_FAILED = frozenset({"error", "failed", "failure"})


class RequestedCall(NamedTuple):
    """A call that a model requested, and the result that a later request of a model reports."""

    call: ToolCall
    requested_by: Observation
    result: str | None
    reported_by: Observation | None


def tool_observations(groups: Sequence[Group], tree: Tree) -> list[tuple[int, Observation]]:
    """Return the executions of tools as (turn, observation), in order within each turn.

    Where any tool has a span, the spans are the executions, completed from messages; else the messages are.
    """
    recorded = any(o.kind == "tool" for group in groups for o in group.members)
    result: list[tuple[int, Observation]] = []
    for turn, group in enumerate(groups, 1):
        llm_calls = [o._replace(agent=tree.agent_of(o)) for o in group.calls]
        requested = calls_from_messages(with_messages_of_runs(llm_calls, group.members))
        spans = [o for o in group.members if o.kind == "tool"]
        tools = completed(spans, requested) if recorded else observations_of(requested)
        result += [(turn, o) for o in tools]
    return result


def calls_from_messages(llm_calls: Sequence[Observation]) -> list[RequestedCall]:
    """Return the tool calls in the messages of one turn's model calls, each with its result.

    History repeats every earlier call and result: only what is new in each model call is read. Results are
    joined by call id, else by name, in order.
    """
    requested: list[RequestedCall] = []
    by_id: dict[str, deque[int]] = {}
    by_name: dict[str | None, deque[int]] = {}

    def pending(numbers: deque[int] | None) -> int | None:
        while numbers and requested[numbers[0]].reported_by is not None:
            numbers.popleft()
        return numbers[0] if numbers else None

    for llm_call in llm_calls:
        for result in llm_call.tool_results:
            i = pending(by_id.get(result.call_id)) if result.call_id else None
            if i is None and result.name and not (result.call_id and by_id):
                i = pending(by_name.get(result.name))
            if i is not None:
                requested[i] = requested[i]._replace(result=result.result, reported_by=llm_call)
        for call in llm_call.tool_calls:
            if call.call_id:
                by_id.setdefault(call.call_id, deque()).append(len(requested))
            by_name.setdefault(call.name, deque()).append(len(requested))
            requested.append(RequestedCall(call, llm_call, None, None))
    return requested


def completed(spans: Sequence[Observation], requested: Sequence[RequestedCall]) -> Iterator[Observation]:
    """Yield one turn's tool spans with what only the messages have: call id, arguments, result.

    Arguments that are not an object are one argument's value; its name is in the messages.
    """
    unmatched = _Unmatched(requested)
    for span in spans:
        match = unmatched.pop(span)
        is_object = span.arguments is not None and span.arguments.startswith("{")
        if match is None:
            yield span if is_object else span._replace(arguments=None)
            continue
        yield span._replace(
            call_id=span.call_id or match.call.call_id,
            arguments=span.arguments if is_object else match.call.arguments,
            result=span.result or match.result,
        )


class _Unmatched:
    """The requested calls of one turn that no span is matched with yet."""

    def __init__(self, requested: Sequence[RequestedCall]) -> None:
        self._requested = requested
        self._matched = [False] * len(requested)
        self._numbers: dict[tuple[Any, ...], deque[int]] = {}
        for number, item in enumerate(requested):
            call = item.call
            for key in (("id", call.call_id), ("name", call.name)):
                self._numbers.setdefault(key, deque()).append(number)
            for form, text in _arguments_of_spans(call.arguments):
                self._numbers.setdefault((form, call.name, text), deque()).append(number)

    def pop(self, span: Observation) -> RequestedCall | None:
        """Return the first call that a span executes, which no other span is then matched with."""
        if span.call_id:
            number = self._first("id", span.call_id)
        else:
            forms = ("object",) if (span.arguments or "").startswith("{") else ("object", "value")
            same = [self._first(form, span.name, span.arguments) for form in forms]
            number = min((one for one in same if one is not None), default=None)
            if number is None and span.arguments is None:
                number = self._first("name", span.name)
        if number is None:
            return None
        self._matched[number] = True
        return self._requested[number]

    def _first(self, *key: str | None) -> int | None:
        numbers = self._numbers.get(key)
        while numbers and self._matched[numbers[0]]:
            numbers.popleft()
        return numbers[0] if numbers else None


def _arguments_of_spans(requested: str | None) -> Iterator[tuple[str, str | None]]:
    """Yield the arguments that a span of a requested call may have, as (form, text).

    The form is "value" if the text is the value of the only argument. A bare 42 may stand for the text "42".
    """
    yield "object", requested
    value = json_or_none(requested)
    if isinstance(value, str):
        yield "object", value
    elif requested is None:
        yield "object", "null"
    elif isinstance(value, dict) and len(value) == 1:
        (argument,) = value.values()
        yield "value", canonical(argument)
        if isinstance(argument, str):
            yield "value", argument


def observations_of(requested: Iterable[RequestedCall]) -> Iterator[Observation]:
    """Yield an observation for each requested call that has a result."""
    for item in requested:
        if item.reported_by is None or item.call.name is None:
            continue
        yield Observation(
            kind="tool",
            trace_id=item.requested_by.trace_id,
            span_id="",
            parent_span_id=item.requested_by.span_id,
            start_ns=item.requested_by.end_ns,
            end_ns=item.reported_by.start_ns,
            name=item.call.name,
            agent=item.requested_by.agent,
            arguments=item.call.arguments,
            result=item.result,
            call_id=item.call.call_id,
        )


def tool_interaction(
    position: int, turn: int, observation: Observation, tree: Tree, *, has_agents: bool
) -> ToolInteraction:
    """Return the interaction that an observation of a tool records."""
    name = observation.name or ""
    ok, error = ok_and_error(observation)
    timed = observation.span_id and observation.timed
    return ToolInteraction(
        position=position,
        turn=turn,
        tool_name=name,
        input_arguments=json_or_none(observation.arguments),
        output=json_or_none(observation.result),
        arguments_known=observation.arguments is not None,
        output_known=observation.result is not None,
        ok=ok,
        error=error,
        call_id=observation.call_id,
        agent=tree.agent_of(observation),
        handoff=has_agents and (observation.handoff_to is not None or is_handoff(name)),
        start_ns=observation.start_ns,
        end_ns=observation.end_ns,
        latency_s=seconds(observation.start_ns, observation.end_ns) if timed else None,
        trace_id=observation.trace_id,
        span_id=observation.span_id or None,
    )


def ok_and_error(observation: Observation) -> tuple[bool | None, str | None]:
    """Return whether a tool call succeeded, None if unknown, and its error if it failed.

    Frameworks record a failure in different places: on the span, or in the result's structure
    (`{"status": "error"}`, a truthy `"error"`, `"isError"`). A text that only messages have may be a
    failure's as well as an answer's.
    """
    result = json_or_none(observation.result)
    message = None
    failed = observation.failed
    if isinstance(result, Mapping):
        failed = (
            failed
            or (isinstance(result.get("status"), str) and result["status"].lower() in _FAILED)
            or bool(result.get("error"))
            or result.get("isError") is True
            or result.get("is_error") is True
        )
        message = next(
            (str(result[key]) for key in ("error_message", "error", "message", "detail") if result.get(key)),
            None,
        )
    if failed:
        return False, observation.error or message or (result if isinstance(result, str) else None)
    if observation.result is None or (isinstance(result, str) and not observation.span_id):
        return None, None
    return True, None


def json_or_none(text: str | None) -> Any:
    """Return the value of a JSON text; None for None."""
    return None if text is None else orjson.loads(text)
