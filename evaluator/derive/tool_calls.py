"""Tool interactions: a call and its result, from a tool's span, the model's messages, or both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from spangrade.converters.spans.observation import Observation, ToolCall
from spangrade.evaluator.derive.handoffs import is_handoff
from spangrade.evaluator.derive.span_tree import Tree
from spangrade.evaluator.derive.timing import seconds
from spangrade.evaluator.derive.turns import Group
from spangrade.evaluator.session import ToolInteraction

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
        requested = calls_from_messages([o._replace(agent=tree.agent_of(o)) for o in group.calls])
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
    for llm_call in llm_calls:
        for result in llm_call.tool_results:
            pending = [i for i, r in enumerate(requested) if r.reported_by is None]
            by_id = [i for i in pending if result.call_id and requested[i].call.call_id == result.call_id]
            by_name = [i for i in pending if result.name and requested[i].call.name == result.name]
            for i in (by_id or ([] if result.call_id and _has_ids(requested) else by_name))[:1]:
                requested[i] = requested[i]._replace(result=result.result, reported_by=llm_call)
        requested += [RequestedCall(call, llm_call, None, None) for call in llm_call.tool_calls]
    return requested


def _has_ids(requested: Iterable[RequestedCall]) -> bool:
    return any(r.call.call_id for r in requested)


def completed(spans: Sequence[Observation], requested: Sequence[RequestedCall]) -> Iterator[Observation]:
    """Yield one turn's tool spans with what only the messages have: call id, arguments, result.

    Arguments that are not an object are one argument's value; its name is in the messages.
    """
    unmatched = list(requested)
    for span in spans:
        match = _match(span, unmatched)
        is_object = span.arguments is not None and span.arguments.startswith("{")
        if match is None:
            yield span if is_object else span._replace(arguments=None)
            continue
        unmatched.remove(match)
        yield span._replace(
            call_id=span.call_id or match.call.call_id,
            arguments=span.arguments if is_object else match.call.arguments,
            result=span.result or match.result,
        )


def _match(span: Observation, requested: Sequence[RequestedCall]) -> RequestedCall | None:
    if span.call_id:
        return next((r for r in requested if r.call.call_id == span.call_id), None)
    same_name = [r for r in requested if r.call.name == span.name]
    same = [r for r in same_name if _same_arguments(span.arguments, r.call.arguments)]
    if span.arguments is not None and not same:
        return None
    return next(iter(same or same_name), None)


def _same_arguments(recorded: str | None, requested: str | None) -> bool:
    """Return whether a span's arguments are those of a message; a span may hold one argument's value."""
    if recorded == requested:
        return True
    value, wanted = json_or_none(recorded), json_or_none(requested)
    if isinstance(wanted, dict) and not isinstance(value, dict) and len(wanted) == 1:
        wanted = next(iter(wanted.values()))
    # A bare 42 may stand for the text "42".
    return recorded is not None and wanted in (value, recorded)


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
